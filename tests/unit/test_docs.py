"""The documentation says what the code does; UPDATE_GOLDEN=1 writes the pages that are made from tables."""

import os
import re
import textwrap
from pathlib import Path

import pytest
from msgspec.structs import asdict

from ci_doctor.buildkite.retry_rules import rules_for
from ci_doctor.catalogue import all_rules
from ci_doctor.commands.listing import COMMANDS
from ci_doctor.config.exit_codes import ExitCodes
from ci_doctor.diagnosis.diagnosis import load_rules
from ci_doctor.diagnosis.failure_class import POLICIES
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.meanings import EXIT_CODES, VERDICTS
from ci_doctor.model.verdict import Verdict

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
        *(f"| {int(code)} | {text.meaning} | {text.remedy} |" for code, text in EXIT_CODES.items()),
        "",
        "ci-doctor never uses 125, because buildkite-agent rewrites it to -1. 126, 127 and 128+n belong to the shell.",
        "`ci-doctor run -- CMD` returns the status of CMD, 127 if CMD does not exist, and 126 if it cannot be run.",
        "`ci-doctor run --diagnose --exit-code-by-class -- CMD` makes 75 of a failure whose cause lies outside the change, if",
        "another run helps and CMD ended by it ([run](run.md)).",
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
        "The verdict alone decides the exit code. With 2, 70, 130 and 143 a report's `verdict` is null and its `error` says what",
        "happened. The verdict is null, and the exit code 0, if nothing was judged (`explain`, `config show`, a dry run).",
        "",
        "## A repository's own codes",
        "",
        "```toml",
        "[exit-codes]",
        "infra = 255          # vLLM's pipelines retry 255",
        "```",
        "",
        "A verdict's code may be 1 to 124 or 255, but not 2 or 70. `failed` may share the code of `regression`; neither `infra` nor",
        "`nondeterministic` may share one with either.",
        "",
        "## In a pipeline",
        "",
        "`ci-doctor pipeline retry-rules` prints the rules of a step for the codes of this repository, with their reasons. A code",
        "that others end with, too (1 to 7 are pytest's), gets no rule if the rule could hide a failure, and a comment says so. If",
        "`infra` is 255, a command killed by a signal is retried, too.",
        "",
        "```yaml",
        "steps:",
        '  - label: "correctness"',
        "    command: ci-doctor correctness --retries 3",
        textwrap.indent(rules_for(asdict(ExitCodes())).yaml, "    ").rstrip(),
        "```",
    ]
    return "\n".join(lines) + "\n"


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
        f"| [`{class_.value}`](findings.md#diagnose/{class_.value}) | {policy.title} | {policy.retry.value} |"
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


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("findings.md", findings_page()),
        ("exit-codes.md", exit_codes_page()),
        ("diagnose-rules.md", log_rules_page()),
    ],
)
def test_pages_made_from_tables_are_true(name: str, page: str) -> None:
    path = ROOT / "docs" / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(page, encoding="utf-8")

    assert path.read_text(encoding="utf-8") == page


def test_every_exit_code_and_every_verdict_is_explained() -> None:
    assert set(EXIT_CODES) == set(ExitCode)
    assert set(VERDICTS) == set(Verdict)


def test_every_rule_that_the_code_names_is_explained() -> None:
    source = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "ci_doctor").rglob("*.py")
    )
    named = set(
        re.findall(
            r'"((?:correctness|determinism|diagnose|import-race|preload|restart-check|services|setup-env|version)/[a-z0-9-]+)"',
            source,
        )
    )

    assert named <= set(RULES), f"not in ci_doctor/catalogue.py: {sorted(named - set(RULES))}"


def test_every_command_stands_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    for name, (group, _) in COMMANDS.items():
        if group:
            assert f"ci-doctor {name}" in readme, name


def test_links_between_pages_lead_somewhere() -> None:
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *ROOT.glob("examples/*/README.md"),
    ]
    for page in pages:
        for target in re.findall(
            r"\]\((?!https?://|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8")
        ):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
