# SPDX-License-Identifier: Apache-2.0
"""Acts on files: makes the edits of violations, and puts each file in its place by one step."""

import difflib
import stat
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.lint.lint_rule import Edit, Violation
from ci_doctor.lint.lint_run import LintRequest, LintRun
from ci_doctor.lint.run import examine
from ci_doctor.lint.source_files import RepositoryTexts, SourceText, read_source
from ci_doctor.model.facts.lint import LintFixFacts
from ci_doctor.render.safe_text import diff_name
from ci_doctor.system.files.writing import write_atomically


def edited(text: str, edits: Sequence[Edit]) -> str:
    """`text` after `edits`, which are in order and do not overlap."""
    parts = []
    end = 0
    for edit in edits:
        parts += [text[end : edit.start], edit.text]
        end = edit.end
    parts.append(text[end:])
    return "".join(parts)


def unified_diff(file: str, old: str, new: str) -> str:
    """How `new` differs from `old`, as `git apply` takes it; empty if it does not."""
    rows = difflib.unified_diff(
        _lines(old), _lines(new), diff_name(f"a/{file}"), diff_name(f"b/{file}")
    )
    return "".join(map(_ended, rows))


def _lines(text: str) -> list[str]:
    """The lines with their ends; only a line feed ends one, as in git."""
    parts = text.split("\n")
    lines = [f"{part}\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _ended(row: str) -> str:
    return row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n"


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
    edits, counts, overlapping = _accepted(violations, sources)
    files = []
    refused = {}
    for file, several in edits.items():
        source = sources[file]
        text = edited(source.text, several)
        reason = _objection(source, text, count_unreadable)
        if reason is not None:
            refused[file] = reason
        elif text != source.text:
            diff = unified_diff(file, source.text, text)
            files.append(FileRepair(source=source, text=text, diff=diff, count=counts.get(file, 0)))
    return RepairPlan(files=tuple(files), refused=refused, overlapping=overlapping)


def _accepted(
    violations: Iterable[Violation], sources: Mapping[str, SourceText]
) -> tuple[dict[str, list[Edit]], dict[str, int], int]:
    """Edits by file in their order, the number of violations that they mend, and of those left out."""
    edits: dict[str, list[Edit]] = {}
    known: set[Edit] = set()
    counts: dict[str, int] = {}
    left_out = 0
    for violation in violations:
        if not violation.edits:
            continue
        # All edits of a violation or none: half a repair may be worse than the mistake.
        new = [edit for edit in violation.edits if edit not in known]
        if not all(_fits(edit, sources, edits.get(edit.file, [])) for edit in new):
            left_out += 1
            continue
        for edit in new:
            insort(edits.setdefault(edit.file, []), edit, key=_start)
            known.add(edit)
        file = violation.place.file
        counts[file] = counts.get(file, 0) + 1
    return edits, counts, left_out


def _fits(edit: Edit, sources: Mapping[str, SourceText], others: list[Edit]) -> bool:
    """Whether `edit` lies in its file, and meets none of `others`, which are in order."""
    source = sources.get(edit.file)
    if source is None or not 0 <= edit.start <= edit.end <= len(source.text):
        return False
    index = bisect_left(others, edit.start, key=_start)
    neighbours = others[max(index - 1, 0) : index + 1]
    return not any(_meet(edit, other) for other in neighbours)


def _meet(one: Edit, other: Edit) -> bool:
    # Two that only touch change different characters, unless one of them inserts there.
    if one.start == one.end or other.start == other.end:
        return one.start <= other.end and other.start <= one.end
    return one.start < other.end and other.start < one.end


def _start(edit: Edit) -> int:
    return edit.start


def _objection(source: SourceText, text: str, count_unreadable: CountUnreadable) -> str | None:
    try:
        source.encoded(text)
    except UnicodeEncodeError:
        return f"the change cannot be written in {source.encoding}"
    if count_unreadable(source.file, text) > count_unreadable(source.file, source.text):
        return "the file could not be parsed after the change"
    return None


# Writes what is planned, if a file is still what it was.


def write_repairs(root: Path, plan: RepairPlan) -> Mapping[str, str]:
    """Write the files of `plan`, each as a whole and with its mode; the reasons of those not written."""
    refused = {}
    for each in plan.files:
        reason = _not_written(root, each)
        if reason is not None:
            refused[each.source.file] = reason
    return refused


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
    not_written = write_repairs(ran.scope.root, plan)
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
