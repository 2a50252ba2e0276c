"""The documentation says what the code does; UPDATE_GOLDEN=1 writes the pages that are made from tables."""

import os
import re
import textwrap
from pathlib import Path

import pytest
from msgspec.structs import asdict

from ci_doctor.buildkite.retry_rules import rules_for
from ci_doctor.catalogue import all_rules
from ci_doctor.cli import root
from ci_doctor.commands.listing import COMMANDS
from ci_doctor.commands.manual.configuration_keys import configuration_keys
from ci_doctor.commands.manual.reading import manuals
from ci_doctor.commands.manual.reference import commands_page, environment_page
from ci_doctor.config.exit_codes import ExitCodes
from ci_doctor.config.reference import reference_text
from ci_doctor.diagnosis.diagnosis import load_rules
from ci_doctor.lint.all_rules import lint_rules
from ci_doctor.lint.lint_rule import Example
from ci_doctor.lint.source_files import kind_by_name
from ci_doctor.model.cause import POLICIES
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.meanings import EXIT_CODE_MEANINGS, VERDICTS
from ci_doctor.model.verdict import Verdict
from ci_doctor.pytest_runs.explain.kinds import MEANINGS
from ci_doctor.pytest_runs.explain.plan import PLAIN_RUNS
from ci_doctor.pytest_runs.explain.statistics import LEVEL, MOST_CONFIRMATIONS, WRONG_KIND_AT_MOST

ROOT = Path(__file__).parents[2]
RULES = all_rules()


def findings_page() -> str:
    lines = [
        "# Findings",
        "",
        "Every rule that a finding may name, by family. `ci-doctor explain RULE` prints the same. This page is made from",
        "the rooms' own rules (`ci_doctor/catalogue.py` lists them); a test holds both together.",
    ]
    family = ""
    for rule, text in sorted(RULES.items()):
        if rule.partition("/")[0] != family:
            family = rule.partition("/")[0]
            lines += ["", f"## {family}"]
        lines += [
            "",
            f'### <a id="{rule}"></a>`{rule}`',
            "",
            text.meaning,
            "",
            f"**What to do.** {text.remedy or 'Nothing.'}",
        ]
    return "\n".join(lines) + "\n"


def exit_codes_page() -> str:
    lines = [
        "# Exit codes",
        "",
        "Each outcome has one exit code, so a pipeline can decide without reading a log. `ci-doctor explain 75` prints",
        "the same text.",
        "",
        "| code | meaning | what to do |",
        "|--:|---|---|",
        *(f"| {int(code)} | {text.meaning} | {text.remedy} |" for code, text in EXIT_CODE_MEANINGS.items()),
        "",
        "ci-doctor never uses 125, because buildkite-agent rewrites it to -1. 126, 127 and 128+n belong to the shell.",
        "A signal while the command is being loaded ends with 130 or 143 as well: nothing runs yet, and no report is written.",
        "If the reader of stdout left early, as `head` does, 141 (128 + SIGPIPE) replaces 0.",
        "`ci-doctor run -- CMD` returns the status of CMD, 127 if CMD does not exist, and 126 if it cannot be run.",
        "With `ci-doctor run --diagnose --exit-code-by-class -- CMD` a failure ends with 75 under three conditions: its cause lies",
        "outside the change, another run helps, and CMD ended by it ([run](run.md)).",
        "",
        "Pipelines retry 75, so it never hides a regression. If the baseline starts and answers, and the candidate fails in",
        "every start, the verdict is `regression`.",
        "",
        "## Verdicts",
        "",
        "| verdict | meaning | what to do |",
        "|---|---|---|",
        *(
            f"| `{verdict}` | {text.meaning} | {text.remedy} |"
            for verdict, text in VERDICTS.items()
        ),
        "",
        "The verdict alone decides the exit code. With 2, 70, 130 and 143 a report's `verdict` is null, and its `error` says what",
        "happened. If nothing was judged (`explain`, `config show`, a dry run), the verdict is null and the exit code 0.",
        "[What do I do on each verdict?](how-do-i/each-verdict.md) goes through them one by one.",
        "",
        "## A repository's own codes",
        "",
        "```toml",
        "[exit-codes]",
        "infra = 255          # vLLM's pipelines retry 255",
        "```",
        "",
        "A verdict's code may be 1 to 124 or 255, but not 2 or 70. `failed` may share the code of `regression`. `infra` and",
        "`nondeterministic` may not share a code with either of them.",
        "",
        "## In a pipeline",
        "",
        "`ci-doctor pipeline retry-rules` prints the rules of a step for the codes of this repository, with their reasons. Other",
        "programs may end with the same code (1 to 7 are pytest's). If a rule for it could hide a failure, the code gets no rule,",
        "and a comment says so. If `infra` is 255, a command killed by a signal is retried, too.",
        "",
        "```yaml",
        "steps:",
        '  - label: "correctness"',
        "    command: ci-doctor correctness --retries 3",
        textwrap.indent(rules_for(asdict(ExitCodes())).yaml, "    ").rstrip(),
        "```",
    ]
    return "\n".join(lines) + "\n"


def configuration_page() -> str:
    """The page as it stands, with the example of every section put in anew."""
    page = (ROOT / "docs/configuration.md").read_text()
    before, marker, after = page.partition("<!-- reference.toml -->\n```toml\n")
    _, end, rest = after.partition("```\n")
    _, _, example = reference_text().partition("\n")  # without the licence
    return f"{before}{marker}{example}{end}{rest}"


def log_rules_page() -> str:
    lines = [
        "# Rules about log lines",
        "",
        "Every rule by which [`ci-doctor diagnose`](diagnose.md) reads a log, by family. `ci-doctor explain RULE` prints the",
        "same. This page is made from the rules (`ci_doctor/diagnosis/rules/*.toml`); a test holds both together. Rules of the roles `begin`,",
        "`end`, `success`, `traceback` and `noise` name no cause. They help to read a log, and are not listed.",
        "",
        "## Classes",
        "",
        "| class | in words | does another run help? |",
        "|---|---|---|",
    ]
    lines += [
        f"| [`{class_}`](findings.md#diagnose/{class_}) | {policy.title} | {policy.retry.value} |"
        for class_, policy in POLICIES.items()
    ]
    family = ""
    for rule in sorted(load_rules().rules, key=lambda each: each.id):
        if rule.class_ is None:
            continue
        if rule.id.partition("/")[0] != family:
            family = rule.id.partition("/")[0]
            lines += ["", f"## {family}"]
        lines += [
            "",
            f'### <a id="{rule.id}"></a>`{rule.id}`',
            "",
            f"{rule.role.value}, {rule.class_.value}. {rule.explanation}".rstrip(),
        ]
        if rule.remedy:
            lines += ["", f"**What to do.** {rule.remedy}"]
    return "\n".join(lines) + "\n"


def lint_rules_page() -> str:
    lines = [
        "# Rules of lint",
        "",
        "Every rule by which [`ci-doctor lint`](lint.md) reads scripts, pipelines and gates, by family, with the first of its",
        "examples. `ci-doctor explain RULE` prints the same. This page is made from the rules (`ci_doctor/lint/all_rules.py` lists",
        "them); a test holds both together, and another one runs every example.",
        "",
        "| rule | severity | meaning |",
        "|---|---|---|",
    ]
    ordered = sorted(lint_rules(), key=lambda each: each.id)
    for each in ordered:
        first = each.rule.meaning.partition(". ")[0].rstrip(".").replace("|", "\\|")
        lines.append(f"| [`{each.id}`](#{each.id}) | {each.rule.severity.value} | {first} |")
    family = ""
    for each in ordered:
        if each.id.partition("/")[0] != family:
            family = each.id.partition("/")[0]
            lines += ["", f"## {family}"]
        lines += ["", f'### <a id="{each.id}"></a>`{each.id}`', "", each.rule.meaning]
        lines += ["", f"**What to do.** {each.rule.remedy or 'Nothing.'}"]
        for title, files in (("Reported", each.bad[0]), ("Not reported", each.good[0])):
            for file in files:
                lines += ["", f"{title}, `{file.file}`:", "", *_code_block(file)]
    return "\n".join(lines) + "\n"


def _code_block(example: Example) -> list[str]:
    kind = kind_by_name(example.file)
    name = {"shell": "sh", "YAML": "yaml", "Python": "python"}.get(kind or "", "")
    fence = "````" if "```" in example.text else "```"
    # A carriage return would be a line end to whoever reads the page.
    text = example.text.rstrip("\n").replace("\r", "␍")
    return [f"{fence}{name}", *text.split("\n"), fence]


def flaky_kinds_page() -> str:
    lines = [
        "# Why a test is flaky",
        "",
        "`ci-doctor pytest --explain-flaky -- ARGS` runs the failed tests of a suite again and again, and changes one condition",
        "at a time. The conditions are the tests before it and what they leave, seeds, the time zone, the clock, load, ports, the",
        "network, and an earlier run. The finding names the **kind** and the **culprit**. It has a command that shows the failure,",
        "one that does not, and a way to mend it. The verdict does not change.",
        "",
        "`--explain-budget 5m` is the time for all tests together (default 120s). Each test gets at least a quarter, until the",
        "time is over.",
        "",
        "## The kinds",
        "",
        "| kind | what it is | what shows it | the command | how to mend it |",
        "|---|---|---|---|---|",
        *(
            f"| `{kind}` | {text.meaning} | {text.shown_by} | `{text.command}` | {text.mend} |"
            for kind, text in MEANINGS.items()
        ),
        "",
        "`PLUGIN` is `PYTHONPATH=… CI_DOCTOR_TRIAL='{…}'` and `-p _ci_doctor_trial`. It makes conditions that no environment",
        "makes. The finding holds the whole line. This table is made from `ci_doctor/pytest_runs/explain/kinds.py`, and a test",
        "compares both.",
        "",
        FLAKY_KINDS_TEXT.strip(),
    ]
    return "\n".join(lines) + "\n"


FLAKY_KINDS_TEXT = f"""
## How it is found

1. The test runs alone. Then it runs once more after the tests that ran before it in its process, in their order. Both runs have
   fixed seeds.
2. If these two end in opposite ways, a bisection over the earlier tests finds the culprit. It takes about log2(n) runs: 10 for 1,000
   tests. The culprit of another test is tried first. Ten more runs confirm the culprit. If no single test is enough, delta debugging
   finds a small set of tests. Then ci-doctor puts back what the culprit leaves, item by item: variables, attributes, caches, files,
   threads, processes, the event loop. The item with which the test ends the other way is named.
3. Otherwise each other condition is tried alone. If one changes the ending, it is confirmed.
4. If none does, the test runs up to {PLAIN_RUNS} times alone with nothing controlled. The finding says how often it failed. It also
   says which failure rate the runs exclude with 95 % confidence (Clopper & Pearson's exact limit): {PLAIN_RUNS} passes exclude 5 %.

**A kind is named only if it is confirmed.** With the condition the test must fail in five runs of five. Without it the test must pass
in five of five, in mixed order. Load, the clock and the network make a failure likely, not certain. They may instead show it in twelve
runs of each by Fisher's exact test, with p <= {LEVEL}. At most {MOST_CONFIRMATIONS} conditions are confirmed for a test. So a test that fails by
chance, at whatever rate, gets a wrong kind with a probability of at most {WRONG_KIND_AT_MOST:.1%}. This assumes runs that do not depend on each other.

## What a run does to the machine

A trial runs in the project's directory with a `TMPDIR` of its own, in one process, without the reports that ARGS ask for. Afterwards
ci-doctor ends the processes that the trial left, and removes the files that it made outside `TMPDIR`. It writes back files of up to
1 MiB that the trial changed or removed. It knows them from Python's audit events (PEP 578). So it cannot take back what other programs
or C code write. `~/.cache` is left alone. Under `load` ci-doctor stops and continues the process group of the trial, so no other process
gets slower.

## What it does not see

- State that Python cannot read or put back: memory of C extensions, open descriptors, rows in a database. The polluter is still
  named, as `state` without an item.
- The date: the time zone moves it by a day at most. A test that fails on 29 February only is not explained.
- Two tests in two workers of pytest-xdist that meet at the same time. A fixed port or a file in common is found, the other test is not.
- The random numbers of the kernel (`os.urandom`, `secrets`, `uuid4`) and generators that a test seeds by itself.
- A test that failed in each attempt is explained only by another order. If the suite ran in the order of its files, it is a failure.
- Two Python threads that race for the interpreter's lock: pauses seldom change who wins. A thread that waits, or works outside the
  lock, is found.
- A service that answers differently: `network` says that the test needs it.

The words victim, brittle, polluter and state-setter are those of iFixFlakies (Shi et al., ESEC/FSE 2019). The search for a minimal set
is that of Zeller & Hildebrandt (IEEE TSE 2002). The other kinds follow Luo et al. (FSE 2014).
`python benchmarks/flaky_kinds.py` measures the shares of right kinds and culprits. `python benchmarks/public_flaky.py` does so on
published suites whose tests depend on their order ([RESULTS.md](../benchmarks/RESULTS.md)).
"""


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("flaky-kinds.md", flaky_kinds_page()),
        ("commands.md", commands_page(list(manuals(root)))),
        ("environment.md", environment_page(configuration_keys())),
        ("findings.md", findings_page()),
        ("exit-codes.md", exit_codes_page()),
        ("diagnose-rules.md", log_rules_page()),
        ("configuration.md", configuration_page()),
        ("lint-rules.md", lint_rules_page()),
    ],
)
def test_pages_made_from_tables_are_true(name: str, page: str) -> None:
    path = ROOT / "docs" / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(page, encoding="utf-8")

    assert path.read_text(encoding="utf-8") == page


def test_every_exit_code_and_every_verdict_is_explained() -> None:
    assert set(EXIT_CODE_MEANINGS) == set(ExitCode)
    assert set(VERDICTS) == set(Verdict)


def test_every_rule_that_the_code_names_is_explained() -> None:
    source = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "ci_doctor").rglob("*.py")
    )
    named = set(
        re.findall(
            r'"((?:correctness|determinism|diagnose|import-race|preload|restart-check|services|setup-env|version|lint)/[a-z0-9-]+)"',
            source,
        )
    )

    assert named <= set(RULES), f"not in ci_doctor/catalogue.py: {sorted(named - set(RULES))}"


def test_every_command_stands_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    for name, (group, _) in COMMANDS.items():
        if group:
            assert f"ci-doctor {name}" in readme, name
