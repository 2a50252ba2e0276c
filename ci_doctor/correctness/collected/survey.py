# SPDX-License-Identifier: Apache-2.0
"""Reads files of samples once: which starts they hold, which requests, and where answers may differ.

An answer is not kept: the SHA-256 of its bytes is, and where it stands. Two answers whose bytes are alike are the same;
what is not alike is read again, the slow way (`settle`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ci_doctor.correctness.collected.entries import Entry, read
from ci_doctor.correctness.collected.formats import Format
from ci_doctor.correctness.collected.paired_lines import Steps, in_step
from ci_doctor.correctness.collected.pieces import head, is_answer, token
from ci_doctor.correctness.collected.sources import NoEvidenceError, Place, Source, places
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


class Record(Struct, frozen=True, gc=False):
    """One answer: `token` is the SHA-256 of its bytes, None where only the slow way can tell."""

    id: str | None
    pass_: int
    token: bytes | None
    place: Place


class Heard(Struct, frozen=True, kw_only=True):
    """One start: `number` counts from 1 within its arm."""

    arm: Arm
    number: int
    source: Source

    @property
    def name(self) -> str:
        """`A1`, `B2`."""
        return f"{self.arm.letter}{self.number}"


class Survey(Struct, frozen=True, kw_only=True):
    """What stands where.

    `requests` are all, in order of first appearance; `odd` leads from those that are not known to be the same everywhere
    to the places of each start's answers, by pass, in the order of `starts`. `passes` is how often each start was asked.
    `aligned` says by what the answers were put side by side.
    """

    starts: tuple[Heard, ...]
    requests: list[str]
    odd: dict[str, list[dict[int, list[Place]]]]
    passes: int
    aligned: str
    notes: tuple[str, ...] = ()


class _Group(Struct, kw_only=True):
    """One start while its file is read."""

    source: Source
    arm: str | None
    records: list[Record] = field(default_factory=list)


def survey(baseline: Sequence[Source], candidate: Sequence[Source]) -> Survey:
    """Read both sides. Raises NoEvidenceError, InfraError."""
    if (
        len(baseline) == len(candidate) == 1
        and (steps := in_step(baseline[0], candidate[0])) is not None
    ):
        return _from_steps(steps, baseline[0], candidate[0])
    sides = [
        [group for source in side for group in _groups(source)] for side in (baseline, candidate)
    ]
    chosen, notes = _choose(sides)
    _refuse_itself(chosen)
    return _align(chosen, notes)


def _refuse_itself(chosen: Sequence[tuple[Heard, _Group]]) -> None:
    """Raises UsageError where the two sides would be the same samples."""
    seen: dict[tuple[Path, str | None], Arm] = {}
    for heard, group in chosen:
        path = group.source.path.resolve()
        if seen.setdefault((path, group.arm), heard.arm) is not heard.arm:
            raise UsageError(
                f"both sides name {group.source.path}, which does not hold both arms",
                hint="samples are always the same as themselves: name another file",
            )


def _from_steps(steps: Steps, left: Source, right: Source) -> Survey:
    if not steps.ids:
        raise NoEvidenceError(f"{left.path} and {right.path} hold no answers")
    names = (
        [f"line {number}" for number in range(1, len(steps.ids) + 1)]
        if steps.by_line
        else steps.ids
    )
    return Survey(
        starts=(
            Heard(arm=Arm.BASELINE, number=1, source=left),
            Heard(arm=Arm.CANDIDATE, number=1, source=right),
        ),
        requests=names,
        odd={names[index]: [{1: [one]}, {1: [other]}] for index, (one, other) in steps.odd.items()},
        passes=1,
        aligned="line" if steps.by_line else "id",
    )


def _groups(source: Source) -> list[_Group]:
    """The starts of one file: one, or as many as our own samples name."""
    groups: dict[object, _Group] = {}
    sound: set[bytes] = set()
    for identity, place, content in places(source):
        key, record = _record(source.form, identity, place, content, sound)
        arm = key[0] if key else None
        groups.setdefault(key, _Group(source=source, arm=arm)).records.append(record)
    if None in groups and len(groups) > 1:
        # A line that cannot be read belongs to some start of the file: to the first, rather than to none.
        lost = groups.pop(None)
        next(iter(groups.values())).records.extend(lost.records)
    return list(groups.values())


def _record(
    form: Format, identity: str | None, place: Place, content: bytes, sound: set[bytes]
) -> tuple[tuple[str, int] | None, Record]:
    """The start that a record belongs to, and the record; `sound` are the tokens of what is known to be an answer."""
    if found := head(form, content):
        mark = token(form, content, found.at)
        if mark is not None and mark not in sound:
            if is_answer(form, content):
                sound.add(mark)
            else:
                mark = None
        if mark is not None:
            group = (found.group[0].decode(), int(found.group[1])) if form is Format.OURS else None
            return group, Record(found.id.decode("ascii"), int(found.pass_), mark, place)
    entry = read(form, content)
    return entry.group, Record(identity or entry.id, entry.pass_, _slow_token(entry), place)


def _slow_token(entry: Entry) -> bytes | None:
    """Answers that were read whole compare by their canonical digest, but for what needs a closer look."""
    simple = entry.digest is not None and not entry.asked and not entry.empty
    return entry.digest.encode() if simple and entry.digest else None


def _choose(
    sides: Sequence[Sequence[_Group]],
) -> tuple[list[tuple[Heard, _Group]], tuple[str, ...]]:
    """The starts of each side: from files that hold both arms only its own, from others all."""
    chosen: list[tuple[Heard, _Group]] = []
    notes = []
    for arm, groups in zip(Arm, sides, strict=True):
        both = {group.source.path for group in groups if group.arm == "baseline"} & {
            group.source.path for group in groups if group.arm == "candidate"
        }
        kept = [
            group for group in groups if group.source.path not in both or group.arm == arm.value
        ]
        other = sorted(
            {str(group.source.path) for group in kept if group.arm not in {None, arm.value}}
        )
        notes += [
            f"{path} holds only samples of the other arm; all are taken as the {arm}'s"
            for path in other
        ]
        chosen += [
            (Heard(arm=arm, number=number, source=group.source), group)
            for number, group in enumerate(kept, start=1)
        ]
        if not kept:
            raise NoEvidenceError(f"there is no sample of the {arm}")
    return chosen, tuple(notes)


def _align(chosen: list[tuple[Heard, _Group]], notes: tuple[str, ...]) -> Survey:
    """Put the answers side by side: by id, or by line where the starts have no id in common and as many lines."""
    starts = tuple(heard for heard, _ in chosen)
    passes = {heard.name: max(record.pass_ for record in group.records) for heard, group in chosen}
    if len(set(passes.values())) > 1:
        told = ", ".join(f"{name} {number}" for name, number in passes.items())
        raise NoEvidenceError(f"the starts were asked in different numbers of passes: {told}")
    by_line = _by_line(chosen)
    tables: list[dict[str, dict[int, list[Record]]]] = [
        _table(group.records, by_line=by_line) for _, group in chosen
    ]
    requests = list(dict.fromkeys(name for table in tables for name in table))
    number = next(iter(passes.values()))
    return Survey(
        starts=starts,
        requests=requests,
        odd={
            name: [_places(table.get(name, {})) for table in tables]
            for name in requests
            if not _same([table.get(name, {}) for table in tables], number)
        },
        passes=number,
        aligned="line" if by_line else "id",
        notes=notes,
    )


def _by_line(chosen: list[tuple[Heard, _Group]]) -> bool:
    """Whether lines are compared instead of ids. Raises NoEvidenceError where neither can be."""
    sets = [{record.id for record in group.records if record.id is not None} for _, group in chosen]
    counts = {len(group.records) for _, group in chosen}
    if not any(sets):
        if len(counts) == 1:
            return True
        raise NoEvidenceError("the answers have no ids, and the files do not hold as many of them")
    sides = [
        set().union(
            *(ids for ids, (heard, _) in zip(sets, chosen, strict=True) if heard.arm is arm)
        )
        for arm in Arm
    ]
    if sides[0] & sides[1]:
        return False
    if (
        len(counts) == 1
        and all(group.source.form.has_random_ids for _, group in chosen)
        and _apart(sets)
    ):
        return True
    raise NoEvidenceError("the two sides have no request id in common")


def _apart(sets: Sequence[set[str | None]] | Sequence[set[str]]) -> bool:
    return sum(map(len, sets)) == len(set().union(*sets))


def _table(records: Iterable[Record], *, by_line: bool) -> dict[str, dict[int, list[Record]]]:
    """Every record by request and pass. An id that comes twice keeps both: neither is its answer."""
    table: dict[str, dict[int, list[Record]]] = {}
    for number, record in enumerate(records, start=1):
        name = f"line {number}" if by_line else record.id or f"line {record.place.line}"
        table.setdefault(name, {}).setdefault(record.pass_, []).append(record)
    return table


def _places(answers: dict[int, list[Record]]) -> dict[int, list[Place]]:
    return {number: [record.place for record in records] for number, records in answers.items()}


def _same(columns: list[dict[int, list[Record]]], passes: int) -> bool:
    """Whether every start has one answer in every pass, all alike by their bytes, and the passes among themselves too."""
    tokens = set(_tokens(columns))
    return (
        None not in tokens and len(tokens) == 1 and all(len(column) == passes for column in columns)
    )


def _tokens(columns: list[dict[int, list[Record]]]) -> Iterator[bytes | None]:
    for column in columns:
        for records in column.values():
            yield records[0].token if len(records) == 1 else None
