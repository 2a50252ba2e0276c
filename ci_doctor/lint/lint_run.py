# SPDX-License-Identifier: Apache-2.0
"""Pure. What a run of lint is asked, the readers that it has, and what it says of a tree."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.lint.lint_rule import Unreadable, Violation
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
