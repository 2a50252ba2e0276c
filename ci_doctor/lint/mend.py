# SPDX-License-Identifier: Apache-2.0
"""Acts on files: makes the edits of violations, and puts each file in its place by one step."""

import difflib
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.lint.lint_rule import Edit, Violation
from ci_doctor.lint.lint_run import LintFixFacts, LintRequest, LintRun
from ci_doctor.lint.run import examine
from ci_doctor.lint.source_files import RepositoryTexts, SourceText, read_source
from ci_doctor.render.formatting import diff_name
from ci_doctor.system.files.access import write_atomically


def unified_diff(file: str, old: str, new: str) -> str:
    """How `new` differs from `old`, as `git apply` takes it; empty if it does not."""
    rows = difflib.unified_diff(
        # Only a line feed ends a line, as in git.
        re.findall(r"[^\n]*\n|[^\n]+", old),
        re.findall(r"[^\n]*\n|[^\n]+", new),
        diff_name(f"a/{file}"),
        diff_name(f"b/{file}"),
    )
    ended = (
        row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows
    )
    return "".join(ended)


# The edits of violations as changes of whole files, shown before they are made.

# The file, its new text -> how many parts of it cannot be read.
CountUnreadable = Callable[[str, str], int]


class FileRepair(Struct, frozen=True, kw_only=True):
    """A file as it was read and as it is to be; `count` violations are mended."""

    source: SourceText
    text: str
    diff: str
    count: int


class RepairPlan(Struct, frozen=True, kw_only=True):
    """What to write.

    refused: files left as they are, with the reason. overlapping: violations whose edits meet
    another's; a second run mends them.
    """

    files: tuple[FileRepair, ...]
    refused: Mapping[str, str]
    overlapping: int

    @property
    def diff(self) -> str:
        """The changes of all files as one unified diff."""
        return "".join(each.diff for each in self.files)


def plan_repair(
    violations: Iterable[Violation],
    sources: Mapping[str, SourceText],
    count_unreadable: CountUnreadable,
) -> RepairPlan:
    """The changes that mend `violations`, as far as they have edits.

    A file that could be read less well after its change is refused. Edits of files that are not in
    `sources` count as overlapping: nobody has read these files.
    """
    edits: dict[str, list[Edit]] = {}
    counts: Counter[str] = Counter()
    overlapping = 0
    for violation in violations:
        # All edits of a violation or none: half a repair may be worse than the mistake.
        new = [edit for edit in violation.edits if edit not in edits.get(edit.file, ())]
        if all(_fits(edit, sources, edits.get(edit.file, ())) for edit in new):
            counts[violation.place.file] += bool(violation.edits)
            for edit in new:
                edits.setdefault(edit.file, []).append(edit)
        else:
            overlapping += 1
    files = []
    refused = {}
    for file, several in edits.items():
        source = sources[file]
        text = source.text
        for edit in sorted(several, key=lambda each: each.start, reverse=True):
            text = text[: edit.start] + edit.text + text[edit.end :]
        reason = _objection(source, text, count_unreadable)
        if reason is not None:
            refused[file] = reason
        elif text != source.text:
            diff = unified_diff(file, source.text, text)
            files.append(FileRepair(source=source, text=text, diff=diff, count=counts[file]))
    return RepairPlan(files=tuple(files), refused=refused, overlapping=overlapping)


def _fits(edit: Edit, sources: Mapping[str, SourceText], others: Sequence[Edit]) -> bool:
    """Whether `edit` lies in its file, and meets none of `others`."""
    source = sources.get(edit.file)
    if source is None or not 0 <= edit.start <= edit.end <= len(source.text):
        return False
    return not any(edit.start <= other.end and other.start <= edit.end for other in others)


def _objection(source: SourceText, text: str, count_unreadable: CountUnreadable) -> str | None:
    try:
        source.encoded(text)
    except UnicodeEncodeError:
        return f"the change cannot be written in {source.encoding}"
    if count_unreadable(source.file, text) > count_unreadable(source.file, source.text):
        return "the file could not be parsed after the change"
    return None


# Writes what is planned, if a file is still what it was.


def _not_written(root: Path, repair: FileRepair) -> str | None:
    source = repair.source
    path = root / source.file
    if read_source(root, source.file) != source:
        return "it has changed since it was read"
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        write_atomically(path, source.encoded(repair.text), mode=mode)
    except UsageError as error:
        return error.message
    except OSError as error:
        return error.strerror or str(error)
    return None


# `ci-doctor lint --fix`: mends what can be mended safely, and looks again.


def planned(ran: LintRun, request: LintRequest) -> RepairPlan:
    """The changes that mend what `ran` reports. Nothing is changed."""
    files = ran.files
    sources = {file: judged.source for file, judged in files.items()}
    texts = RepositoryTexts(ran.scope.root)
    readers = request.readers(ran.tree, texts)

    def count_unreadable(file: str, text: str) -> int:
        return len(examine(file, text, files[file].kind, readers, texts.read).unreadable)

    return plan_repair(ran.selection.violations, sources, count_unreadable)


def mended(ran: LintRun, plan: RepairPlan, show: Callable[[str], None]) -> LintFixFacts:
    """Show the changes of `plan`, make them, and say what came of it."""
    if plan.diff:
        show(plan.diff)
    reasons = {each.source.file: _not_written(ran.scope.root, each) for each in plan.files}
    not_written = {file: reason for file, reason in reasons.items() if reason is not None}
    return fix_facts(plan, not_written, is_dry_run=False)


def fix_facts(
    plan: RepairPlan, not_written: Mapping[str, str], *, is_dry_run: bool
) -> LintFixFacts:
    """The facts of `plan`, of which the files of `not_written` stayed as they were."""
    files = {each.source.file: each.count for each in plan.files}
    written = {file: count for file, count in files.items() if file not in not_written}
    return LintFixFacts(
        is_dry_run=is_dry_run,
        diff=plan.diff,
        files=written,
        refused={**plan.refused, **not_written},
        overlapping=plan.overlapping,
    )
