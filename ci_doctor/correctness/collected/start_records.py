# SPDX-License-Identifier: Apache-2.0
"""Reads the answers of one file, start by start: a hash of their bytes, and their position."""

from msgspec import Struct, field

from ci_doctor.correctness.collected.entries import Entry, read
from ci_doctor.correctness.collected.formats import SampleFormat
from ci_doctor.correctness.collected.pieces import LineHead, head, is_answer, token
from ci_doctor.correctness.collected.sources import Source, SourcePosition, records
from ci_doctor.correctness.settings import Arm

# The arm and the number of a start, as our own samples name them; None in other formats.
_Key = tuple[str, int] | None


# gc=False: records hold no cycles, and the collector would visit all of them again and again.
class SurveyRecord(Struct, frozen=True, gc=False):
    """One answer: `token` is the SHA-256 of its bytes, None if only the slow way can compare it."""

    id: str | None
    pass_: int
    token: bytes | None
    position: SourcePosition


class FileStart(Struct, kw_only=True):
    """One start in a file; `arm` as the file names it, None if it does not."""

    source: Source
    arm: str | None
    records: list[SurveyRecord] = field(default_factory=list)


class CollectedStart(Struct, frozen=True, kw_only=True):
    """One start of the comparison: `number` counts from 1 within its arm."""

    arm: Arm
    number: int
    source: Source

    @property
    def name(self) -> str:
        """`A1`, `B2`."""
        return f"{self.arm.letter}{self.number}"


def read_starts(source: Source) -> list[FileStart]:
    """The starts of one file: one, or as many as our own samples name.

    Raises NoEvidenceError, InfraError.
    """
    starts: dict[_Key, FileStart] = {}
    answer_tokens: set[bytes] = set()
    for identity, position, content in records(source):
        key, record = _record(identity, position, content, answer_tokens)
        start = starts.get(key)
        if start is None:
            arm = key[0] if key else None
            start = FileStart(source=source, arm=arm)
            starts[key] = start
        start.records.append(record)
    if None in starts and len(starts) > 1:
        # An unreadable line belongs to some start of the file: to the first, rather than to none,
        # or the answer that it held would not be missed.
        nameless = starts.pop(None)
        first = next(iter(starts.values()))
        first.records.extend(nameless.records)
    return list(starts.values())


def _record(
    identity: str | None, position: SourcePosition, content: bytes, answer_tokens: set[bytes]
) -> tuple[_Key, SurveyRecord]:
    """The start that a record belongs to, and the record.

    `answer_tokens` are the tokens of lines that are known to hold an answer; it grows.
    """
    form = position.source.form
    line_head = head(form, content)
    if line_head is not None:
        mark = _answer_token(form, content, line_head, answer_tokens)
        if mark is not None:
            name = line_head.id.decode("ascii")
            record = SurveyRecord(name, int(line_head.pass_), mark, position)
            return _key(form, line_head), record
    entry = read(form, content)
    name_or_none = identity or entry.id
    record = SurveyRecord(name_or_none, entry.pass_, _digest(entry), position)
    return entry.group, record


def _answer_token(
    form: SampleFormat, content: bytes, line_head: LineHead, answer_tokens: set[bytes]
) -> bytes | None:
    mark = token(form, content, line_head.at)
    if mark is None or mark in answer_tokens:
        return mark
    # Lines with one token hold the same answer: one check is enough for all of them.
    if not is_answer(form, content):
        return None
    answer_tokens.add(mark)
    return mark


def _key(form: SampleFormat, line_head: LineHead) -> _Key:
    if form is not SampleFormat.OURS:
        return None
    arm, number = line_head.group
    return arm.decode(), int(number)


def _digest(entry: Entry) -> bytes | None:
    """The canonical digest of an answer that was read whole, but for what needs a closer look."""
    if entry.digest is None or entry.prompt_facts or entry.empty:
        return None
    return entry.digest.encode()
