# SPDX-License-Identifier: Apache-2.0
"""Pure. The edits of violations as changes of whole files, shown before they are made."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from ci_doctor.lint.edit_blocks import edited, unified_diff
from ci_doctor.lint.source_text import SourceText
from ci_doctor.lint.violation import Edit, Violation

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
            diff = unified_diff(file, source.text, several)
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
