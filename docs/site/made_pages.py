# SPDX-License-Identifier: Apache-2.0
"""Reads the code: the pages that are made from it. The site is built with them, and git does not have them (.gitignore).

`write_pages` puts them into docs/, and `places` says what of other pages the site links to them. The tests of pages read them
from `PAGES`.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ci_doctor.checks.all_checks import ON_REQUEST, all_checks
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.cli import root
from ci_doctor.diagnosis.diagnosis import load_rules
from ci_doctor.explanation import all_rules, glossary
from ci_doctor.lint.lint_rule import Example
from ci_doctor.lint.lint_run import lint_rules
from ci_doctor.lint.source_files import kind_by_name
from ci_doctor.model.cause import POLICIES
from ci_doctor.pytest_runs.explanation import KIND, MEANINGS
from docs.site.command_manuals import manuals
from docs.site.reference_pages import commands_page, environment_page


def findings_page() -> str:
    """docs/findings.md: every rule that a finding may name."""
    lines = [
        "# Findings",
        "",
        "Every rule that a finding may name, by family. `ci-doctor explain RULE` prints the same.",
    ]
    family = ""
    for rule, text in sorted(all_rules().items()):
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


def log_rules_page() -> str:
    """docs/diagnose-rules.md: every rule about log lines that names a cause."""
    lines = [
        "# Rules about log lines",
        "",
        "Every rule by which [`ci-doctor diagnose`](diagnose.md) reads a log, by family. `ci-doctor explain RULE` prints the",
        "same. Rules of the roles `begin`, `end`, `success`, `traceback` and `noise` name no cause, and are not listed.",
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
    """docs/lint-rules.md: every rule of lint, with its first examples."""
    lines = [
        "# Rules of lint",
        "",
        "Every rule by which [`ci-doctor lint`](lint.md) reads scripts, pipelines and gates, by family, with the first of its",
        "examples. `ci-doctor explain RULE` prints the same.",
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


def doctor_checks_page() -> str:
    """docs/doctor-checks.md: every check of `ci-doctor doctor`, as `--list` prints them, with its need and deadline."""
    lines = [
        "# Checks of doctor",
        "",
        "What [`ci-doctor doctor`](doctor.md) looks at. `ci-doctor doctor --list` prints the same.",
        "[findings.md](findings.md#doctor) has what a check may find, and what to do.",
        "",
        "| check | looks at | not run if | deadline |",
        "|---|---|---|--:|",
        *(
            f"| `{each.id}` | {each.title} | {each.need.value} | {each.limit_s:g} s |"
            for each in all_checks(DoctorSettings(), tuple(ON_REQUEST))
        ),
    ]
    return "\n".join(lines) + "\n"


def flaky_kinds_page() -> str:
    """docs/flaky-kinds.md: the kinds that `ci-doctor pytest --explain-flaky` names."""
    lines = [
        "# Kinds of flaky tests",
        "",
        "[`ci-doctor pytest --explain-flaky`](pytest.md#why-a-test-is-flaky) names one of these kinds.",
        "",
        "| kind | what it is | what shows it | the command | how to mend it |",
        "|---|---|---|---|---|",
        *(
            f"| `{kind}` | {text.meaning} | {text.shown_by} | `{text.command}` | {text.mend} |"
            for kind, text in MEANINGS.items()
        ),
        "",
        "`PLUGIN` is `PYTHONPATH=… CI_DOCTOR_TRIAL='{…}'` and `-p _ci_doctor_trial`. It makes conditions that no environment",
        "makes. The finding holds the whole line.",
    ]
    return "\n".join(lines) + "\n"


def glossary_page() -> str:
    """docs/glossary.md: every word that `ci-doctor explain` knows."""
    lines = ["# Glossary", "", "`ci-doctor explain WORD` prints the same."]
    for section in glossary():
        lines += ["", f"## {section.title}", *_blocks(section.picture)]
        for each in section.words:
            lines += ["", f"### {each.word}", *_blocks(f"{each.text.strip()} {each.more}".strip())]
            lines += _blocks(each.picture)
    return "\n".join(lines) + "\n"


def _blocks(text: str) -> list[str]:
    return ["", text] if text else []


PAGES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "docs/commands.md": lambda: commands_page(list(manuals(root))),
        "docs/diagnose-rules.md": log_rules_page,
        "docs/doctor-checks.md": doctor_checks_page,
        "docs/environment.md": environment_page,
        "docs/findings.md": findings_page,
        "docs/flaky-kinds.md": flaky_kinds_page,
        "docs/glossary.md": glossary_page,
        "docs/lint-rules.md": lint_rules_page,
    }
)


# What prints the whole of a page, or names all that stands there.
_WHOLE_PAGES: Final = MappingProxyType(
    {
        "`CI_DOCTOR_<SECTION>_<KEY>`": "docs/environment.md",
        "`ci-doctor COMMAND --help`": "docs/commands.md",
        "`ci-doctor diagnose rules`": "docs/diagnose-rules.md",
        "`ci-doctor doctor --list`": "docs/doctor-checks.md",
        "`ci-doctor explain RULE`": "docs/findings.md",
        "`ci-doctor explain WORD`": "docs/glossary.md",
        f"`ci-doctor explain {KIND.id}`": "docs/flaky-kinds.md",
    }
)


@cache
def places() -> Mapping[str, str]:
    """Where what a page names is explained: Markdown of a rule, of a command or of a word in italics, and an address in `PAGES`."""
    found: dict[str, str] = {}
    for each in (each for section in glossary() for each in section.words):
        word = each.word.lower()
        place = f"docs/glossary.md#{word.replace(' ', '-')}"
        found[f"`ci-doctor explain {word}`"] = place
        found |= {f"*{word}{plural}*": place for plural in ("", "s", "es")}
    # A rule of lint stands on two pages: the last one has examples.
    rules_by_page = {
        "docs/diagnose-rules.md": [each.id for each in load_rules().rules if each.class_],
        "docs/findings.md": list(all_rules()),
        "docs/lint-rules.md": [each.id for each in lint_rules()],
    }
    for page, rules in rules_by_page.items():
        for rule in rules:
            family = rule.partition("/")[0]
            found[f"`ci-doctor explain {family}`"] = f"{page}#{family}"
            found[f"`ci-doctor explain {rule}`"] = found[f"`{rule}`"] = f"{page}#{rule}"
    return MappingProxyType(found | _WHOLE_PAGES)


@cache
def made_page(name: str) -> str:
    """The text of the page of that name."""
    return PAGES[name]()


def write_pages(repository: Path) -> None:
    """Write each page into `repository`, where its name says."""
    for name in PAGES:
        (repository / name).write_text(made_page(name), encoding="utf-8")
