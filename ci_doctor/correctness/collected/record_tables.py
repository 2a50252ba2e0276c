# SPDX-License-Identifier: Apache-2.0
"""The answers of several starts side by side: by id, or by line. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ci_doctor.correctness.collected.sources import NoEvidenceError, SourcePosition
from ci_doctor.correctness.collected.start_records import (
    CollectedStart,
    FileStart,
    SurveyRecord,
)
from ci_doctor.correctness.settings import Arm

ChosenStart = tuple[CollectedStart, FileStart]
# By pass, the positions of a start's answers to one request; more than one if its id is not unique.
Positions = dict[int, list[SourcePosition]]

_Records = dict[int, list[SurveyRecord]]
_Table = dict[str, _Records]
_Ids = set[str]


class AlignedRecords(Struct, frozen=True, kw_only=True):
    """All requests, and by `odd` request the positions of each start's answers.

    A request is odd if its answers are not known to be the same everywhere. `passes` is how often
    each start got it.
    """

    requests: list[str]
    odd: dict[str, list[Positions]]
    passes: int
    by_line: bool


def align(chosen: Sequence[ChosenStart]) -> AlignedRecords:
    """The answers of all starts side by side. Raises NoEvidenceError if they do not match."""
    passes = _passes(chosen)
    by_line = _by_line(chosen)
    tables = [_table(file_start.records, by_line=by_line) for _, file_start in chosen]
    # A dict, and not a set: requests stay in the order of the files.
    requests: dict[str, None] = {}
    for table in tables:
        requests.update(dict.fromkeys(table))
    odd = {}
    for request in requests:
        columns = [table.get(request, {}) for table in tables]
        if not _same(columns, passes):
            odd[request] = list(map(_positions, columns))
    return AlignedRecords(requests=list(requests), odd=odd, passes=passes, by_line=by_line)


def _passes(chosen: Sequence[ChosenStart]) -> int:
    """How often each start got a request. Raises NoEvidenceError if not all the same.

    Also if answers of a whole pass are missing.
    """
    passes = set()
    counts = []
    for start, file_start in chosen:
        there = {record.pass_ for record in file_start.records}
        number = max(there)
        if len(there) < number:
            raise NoEvidenceError(
                f"{start.name} has answers of pass {number}, and of {len(there)} passes in all"
            )
        passes.add(number)
        counts.append(f"{start.name} {number}")
    if len(passes) > 1:
        raise NoEvidenceError(f"the starts have different numbers of passes: {', '.join(counts)}")
    return passes.pop()


def _by_line(chosen: Sequence[ChosenStart]) -> bool:
    """Whether lines are compared instead of ids. Raises NoEvidenceError if neither can be."""
    ids = []
    lengths = set()
    for _, file_start in chosen:
        ids.append(_ids(file_start))
        lengths.add(len(file_start.records))
    as_many = len(lengths) == 1
    if not any(ids):
        if as_many:
            return True
        raise NoEvidenceError("the answers have no ids, and the files do not hold as many of them")
    # One common id is enough to align by id: the requests of one side alone are then unanswered.
    if _have_common_ids(chosen, ids):
        return False
    if as_many and _are_random(chosen, ids):
        return True
    raise NoEvidenceError("the two sides have no request id in common")


def _have_common_ids(chosen: Sequence[ChosenStart], ids: Sequence[_Ids]) -> bool:
    """Whether any baseline start has an id in common with any candidate start."""
    baseline: _Ids = set()
    candidate: _Ids = set()
    for (start, _), of_start in zip(chosen, ids, strict=True):
        if start.arm is Arm.BASELINE:
            baseline.update(of_start)
        else:
            candidate.update(of_start)
    return not baseline.isdisjoint(candidate)


def _ids(file_start: FileStart) -> _Ids:
    return {record.id for record in file_start.records if record.id is not None}


def _are_random(chosen: Sequence[ChosenStart], ids: Sequence[_Ids]) -> bool:
    """Whether the server made the ids up: another one for each answer."""
    if not all(start.source.form.has_random_ids for start, _ in chosen):
        return False
    together: _Ids = set()
    for of_start in ids:
        # An id that two files share names a request. Then the order of lines proves nothing.
        if not together.isdisjoint(of_start):
            return False
        together.update(of_start)
    return True


def _table(records: Iterable[SurveyRecord], *, by_line: bool) -> _Table:
    """Every record by request and pass."""
    table: _Table = {}
    for number, record in enumerate(records, start=1):
        name = f"line {number}"
        if not by_line:
            # An unreadable line has no id: its place in the file stands for it.
            name = record.id or f"line {record.position.line}"
        passes = table.setdefault(name, {})
        # A duplicate id keeps both records: neither is known to be its answer.
        of_pass = passes.setdefault(record.pass_, [])
        of_pass.append(record)
    return table


def _positions(column: _Records) -> Positions:
    positions = {}
    for number, records in column.items():
        positions[number] = [record.position for record in records]
    return positions


def _same(columns: Sequence[_Records], passes: int) -> bool:
    """Whether every start has one answer in every pass, and the bytes of all are the same."""
    if any(len(column) != passes for column in columns):
        return False
    tokens = set(_tokens(columns))
    return len(tokens) == 1 and None not in tokens


def _tokens(columns: Iterable[_Records]) -> Iterator[bytes | None]:
    for column in columns:
        for records in column.values():
            if len(records) == 1:
                yield records[0].token
            else:
                yield None
