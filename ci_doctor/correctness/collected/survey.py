# SPDX-License-Identifier: Apache-2.0
"""Reads files of samples once: which starts and requests they hold, and where answers may differ.

No answer is kept, only the SHA-256 of its bytes and its position. Two answers with the same bytes
are the same. The others are read again, the slow way (`reread`).
"""

from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.correctness.collected.paired_lines import PairedLines, pair_lines
from ci_doctor.correctness.collected.record_tables import ChosenStart, Positions, align
from ci_doctor.correctness.collected.sources import NoEvidenceError, Source
from ci_doctor.correctness.collected.start_records import (
    CollectedStart,
    FileStart,
    read_starts,
)
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import UsageError


class Survey(Struct, frozen=True, kw_only=True):
    """The requests of both sides, and where the files hold answers that may differ.

    `requests` are all, in order of first appearance. `odd` leads from those that are not known to
    be the same everywhere to the positions of each start's answers, by pass, in the order of
    `starts`. `passes` is how often each start got a request. `aligned` is what matches the answers:
    `id` or `line`.
    """

    starts: tuple[CollectedStart, ...]
    requests: list[str]
    odd: dict[str, list[Positions]]
    passes: int
    aligned: str
    notes: tuple[str, ...] = ()


def survey(baseline: Sequence[Source], candidate: Sequence[Source]) -> Survey:
    """Read both sides. Raises NoEvidenceError, InfraError."""
    # One file a side is the usual comparison of two runs, and reads several times as fast in pairs.
    if len(baseline) == len(candidate) == 1:
        left = baseline[0]
        right = candidate[0]
        pairs = pair_lines(left, right)
        if pairs is not None:
            return _from_pairs(pairs, left, right)
    chosen: list[ChosenStart] = []
    notes: list[str] = []
    for arm, side in zip(Arm, (baseline, candidate), strict=True):
        starts, side_notes = _choose(arm, side)
        chosen.extend(starts)
        notes.extend(side_notes)
    _refuse_itself(chosen)
    aligned = align(chosen)
    return Survey(
        starts=tuple(start for start, _ in chosen),
        requests=aligned.requests,
        odd=aligned.odd,
        passes=aligned.passes,
        aligned=_alignment(by_line=aligned.by_line),
        notes=tuple(notes),
    )


def _alignment(*, by_line: bool) -> str:
    return "line" if by_line else "id"


def _from_pairs(pairs: PairedLines, left: Source, right: Source) -> Survey:
    if not pairs.ids:
        raise NoEvidenceError(f"{left.path} and {right.path} hold no answers")
    names = pairs.ids
    if pairs.by_line:
        numbers = range(1, len(names) + 1)
        names = [f"line {number}" for number in numbers]
    odd: dict[str, list[Positions]] = {}
    for index, (one, other) in pairs.odd.items():
        request = names[index]
        odd[request] = [{1: [one]}, {1: [other]}]
    return Survey(
        starts=(
            CollectedStart(arm=Arm.BASELINE, number=1, source=left),
            CollectedStart(arm=Arm.CANDIDATE, number=1, source=right),
        ),
        requests=names,
        odd=odd,
        passes=1,
        aligned=_alignment(by_line=pairs.by_line),
    )


def _choose(arm: Arm, side: Sequence[Source]) -> tuple[list[ChosenStart], list[str]]:
    """The starts of one side, and notes. From a file that holds both arms, only the arm's own."""
    chosen: list[ChosenStart] = []
    foreign: set[str] = set()
    for source in side:
        starts = read_starts(source)
        for file_start in _of_arm(arm, starts):
            number = len(chosen) + 1
            start = CollectedStart(arm=arm, number=number, source=source)
            chosen.append((start, file_start))
            if file_start.arm not in {None, arm.value}:
                foreign.add(str(source.path))
    if not chosen:
        raise NoEvidenceError(f"there is no sample of the {arm}")
    notes = []
    for path in sorted(foreign):
        note = f"{path} holds only samples of the other arm; all are taken as the {arm}'s"
        notes.append(note)
    return chosen, notes


def _of_arm(arm: Arm, starts: Sequence[FileStart]) -> list[FileStart]:
    """The starts of a file that belong to a side."""
    arms = {start.arm for start in starts}
    if "baseline" in arms and "candidate" in arms:
        return [start for start in starts if start.arm == arm.value]
    # A file of one arm may be given as either side: two candidates compare, too.
    return list(starts)


def _refuse_itself(chosen: Sequence[ChosenStart]) -> None:
    """Raises UsageError if the two sides are the same samples."""
    arms: dict[tuple[str, str | None], Arm] = {}
    for start, file_start in chosen:
        path = start.source.path
        # Resolved: a link and a relative path name one file, too.
        samples = str(path.resolve()), file_start.arm
        if arms.setdefault(samples, start.arm) is not start.arm:
            raise UsageError(
                f"both sides name {path}, which does not hold both arms",
                hint="samples are always the same as themselves: name another file",
            )
