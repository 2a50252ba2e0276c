# SPDX-License-Identifier: Apache-2.0
"""Pure. What a run of lint is asked, what it has read, and what it says of that."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.lint.baseline import LintBaseline
from ci_doctor.lint.changed_lines import ChangedLines
from ci_doctor.lint.examine import FileExamination
from ci_doctor.lint.reading import Readers
from ci_doctor.lint.repository_texts import RepositoryTexts
from ci_doctor.lint.selection import Selection
from ci_doctor.lint.settings import LintSettings
from ci_doctor.lint.source_kind import SourceKind
from ci_doctor.lint.source_text import SourceText
from ci_doctor.lint.source_tree import LintScope, LintTree
from ci_doctor.lint.unreadable import Unreadable
from ci_doctor.lint.violation import Violation


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
    examination: FileExamination


class Judgement(Struct, frozen=True, kw_only=True):
    """What the rules say of a tree, before anything is left out.

    across: violations of rules over several files. is_whole: these rules saw the whole repository.
    """

    files: Mapping[str, JudgedFile]
    unreadable: tuple[Unreadable, ...]
    across: tuple[Violation, ...]
    is_whole: bool

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Those of all files, without the unreadable ones."""
        violations: list[Violation] = []
        for each in self.files.values():
            violations += each.examination.violations
        return (*violations, *self.across)


class LintRun(Struct, frozen=True, kw_only=True):
    """What was read, and what is wrong. `left_out` counts files that the settings leave out."""

    scope: LintScope
    tree: LintTree
    left_out: int
    changes: ChangedLines | None
    judgement: Judgement
    selection: Selection
