# SPDX-License-Identifier: Apache-2.0
"""Pure. All rules of lint by their families, what a run of lint is asked, and what it says of a tree."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.lint.lint_rule import OWN_RULES, STALE_BASELINE, LintRule, Unreadable, Violation
from ci_doctor.lint.selection import LintBaseline, LintSettings, Selection
from ci_doctor.lint.source_files import (
    ChangedLines,
    FileReading,
    LintScope,
    LintTree,
    RepositoryTexts,
    ShellSource,
    SourceKind,
    SourceText,
)
from ci_doctor.model.facts import Facts
from ci_doctor.model.outcome import Rule


class UnreadableFact(Struct, frozen=True, kw_only=True):
    """A file, or a part of it, that no rule has looked at."""

    file: str
    line: int
    reason: str


class LintSinceFacts(Struct, frozen=True, kw_only=True):
    """The base of `--since`: the name given, and the merge base."""

    reference: str
    base: str


class LintBaselineFacts(Struct, frozen=True, kw_only=True):
    """The baseline file: how many violations it has taken away, and entries that matched nothing."""

    file: str
    known: int
    stale: int


class LintFixFacts(Struct, frozen=True, kw_only=True):
    """What `--fix` did, or would do under `--dry-run`.

    `diff` is a unified one. `files` maps each file to the number of violations mended in it,
    `refused` those left as they were to the reason. `overlapping` edits wait for another run.
    """

    is_dry_run: bool
    diff: str
    files: dict[str, int]
    refused: dict[str, str]
    overlapping: int


class LintFacts(Facts, frozen=True, kw_only=True):
    """What was read, and what became of the violations.

    `lint_files` counts files by what they are in CI: `scripts`, `pipelines`, `gates` (Python in CI
    folders), `other files`. `embedded` are scripts that stand in pipelines. `left_out` counts files
    that were not read, by reason. `rules` counts those that ran by family. `latin1` are files whose bytes are not UTF-8. `silenced` violations have a comment, `unreported` ones are
    above the limit of a report. `meanings` are those of the rules that report.
    """

    lint_files: dict[str, int]
    embedded: int
    rules: dict[str, int]
    unreadable: tuple[UnreadableFact, ...]
    left_out: dict[str, int]
    latin1: int
    silenced: int
    errors: int
    warnings: int
    notes: int
    unreported: int = 0
    since: LintSinceFacts | None = None
    baseline: LintBaselineFacts | None = None
    fix: LintFixFacts | None = None
    meanings: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it


# --- all rules of lint by their families, each family loaded when it is asked for ---


FAMILIES = ("shell", "pipeline", "gate", "config", "lint")


def rules_of(family: str) -> tuple[LintRule, ...]:
    """The rules of one of FAMILIES. To load all of them takes as long as to lint a file."""
    match family:
        case "shell":
            from ci_doctor.lint.shell import rules as shell

            return shell.RULES
        case "pipeline":
            from ci_doctor.lint.pipelines import check as pipelines

            return pipelines.RULES
        case "gate":
            from ci_doctor.lint import gates

            return gates.RULES
        case "config":
            from ci_doctor.lint import variable_rules

            return variable_rules.RULES
        case _:
            return OWN_RULES


def lint_rules() -> tuple[LintRule, ...]:
    """Every rule that has examples."""
    rules: list[LintRule] = []
    for family in FAMILIES:
        rules += rules_of(family)
    return tuple(rules)


def rule_ids() -> tuple[str, ...]:
    """The ids of the rules that a comment or a setting may name."""
    return tuple(rule.id for rule in lint_rules())


def rules_for_catalogue() -> tuple[Rule, ...]:
    """Every rule that a finding of lint may name."""
    return (*(each.rule for each in lint_rules()), STALE_BASELINE)


# --- what a run of lint is asked, the readers that it has, and what it says of a tree ---


# A path relative to the root -> the text of that file; None if there is none to read.
ReadText = Callable[[str], str | None]


class Readers(Struct, frozen=True, kw_only=True):
    """The readers, each a function of texts.

    shell: of a script, and of files that it sources. pipeline: of a YAML file by name and text; None
    if it is no pipeline. python: the same for a program; None if it decides nothing in a job.
    consistency: of several files by name, and whether these are all files of a repository.
    unparsable: why a file that decides nothing in a job cannot be parsed.
    """

    shell: Callable[[ShellSource, ReadText], FileReading]
    pipeline: Callable[[str, str], FileReading | None]
    python: Callable[[str, str], FileReading | None]
    consistency: Callable[[Mapping[str, str], bool], tuple[Violation, ...]]
    unparsable: Callable[[str, str, SourceKind], tuple[Unreadable, ...]]


class LintRequest(Struct, frozen=True, kw_only=True):
    """What a person asks for.

    names: paths as typed. rule_ids: gives the ids of all rules. readers: makes the readers for a tree.
    since: a commit; None for all lines. baseline_file: where `baseline` was read, for messages.
    """

    names: Sequence[str]
    cwd: Path
    rule_ids: Callable[[], Collection[str]]
    readers: Callable[[LintTree, RepositoryTexts], Readers]
    since: str | None = None
    settings: LintSettings = LintSettings()
    baseline: LintBaseline | None = None
    baseline_file: str | None = None


class JudgedFile(Struct, frozen=True, kw_only=True):
    """A file that could be read, and what the rules of its kind say of it."""

    source: SourceText
    kind: SourceKind
    reading: FileReading


class LintRun(Struct, frozen=True, kw_only=True):
    """What was read, and what is wrong.

    left_out: how many files the settings leave out. is_whole: rules over several files saw the whole
    repository. selection: what is reported of what the rules say.
    """

    scope: LintScope
    tree: LintTree
    left_out: int
    changes: ChangedLines | None
    files: Mapping[str, JudgedFile]
    unreadable: tuple[Unreadable, ...]
    is_whole: bool
    selection: Selection
