# SPDX-License-Identifier: Apache-2.0
"""Reads files of samples once: which starts and requests they hold, and where answers may differ.

No answer is kept, only the SHA-256 of its bytes and its position. Two answers with the same bytes
are the same. The others are read again, the slow way (`collected_experiment`).

The bytes of a line may be "unknown" at any time, and the slow way (`formats.read`) then decides. Two
lines are "the same" only if they are equal byte for byte, except for whole values of top-level keys
that are never compared. Nothing inside an answer is masked: a token's text, such as `"id"`, may be a
key there (legacy `top_logprobs`). Two things stay unnoticed, which the slow way refuses: a number
beyond all doubles (1e999), and a duplicate key. Both are then the same on both sides.
"""

import codecs
import os
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import islice, product
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct, field

from ci_doctor.correctness.collected.formats import (
    AmbiguousError,
    Entry,
    SampleFormat,
    blocks,
    read,
    recognise,
)
from ci_doctor.correctness.evidence.samples import is_control
from ci_doctor.correctness.results import SAMPLES
from ci_doctor.correctness.settings import Arm
from ci_doctor.decodable import decodable
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.load.answer_items import BROKEN_OFF
from ci_doctor.load.canonical import digest
from ci_doctor.load.requests import near_file
from ci_doctor.load.schema import AnswerSchema, ChoiceSchema

# --- the files of a path, their format, and the bytes at a position ---

BUFFER = 1 << 20
_SUFFIXES = (".jsonl", ".txt")
_LINES_TO_TRY = 20


class NoEvidenceError(ValueError):
    """The files prove nothing; the text says why. The verdict is `void`."""


class Source(Struct, frozen=True, kw_only=True):
    """One file of one side."""

    arm: Arm
    path: Path
    form: SampleFormat


def find(path: str) -> list[Path]:
    """The files that a path names: of a directory its samples, or each file of samples in it.

    Raises UsageError if there are none.
    """
    target = Path(path)
    if target.is_dir():
        own = target / SAMPLES
        # Beside our samples there are other .jsonl files: events, starts.
        # Sorted: the order of the files numbers the starts, and the file system has none.
        candidates = [own] if own.is_file() else sorted(target.iterdir())
        files = [each for each in candidates if each.suffix in _SUFFIXES and each.is_file()]
        if not files:
            raise UsageError(
                f"no *.jsonl or *.txt in {target}",
                hint="name a directory with one file for each start",
            )
        return files
    if not target.is_file():
        if not target.exists():
            hint = near_file(target) or "name two files, or two directories, of samples"
            raise UsageError(f"no such file: {path}", hint=hint)
        raise UsageError(
            f"not a regular file: {path}",
            hint="name two files, or two directories, of samples; each is read twice if answers differ",
        )
    return [target]


def sources(arm: Arm, path: str, form: SampleFormat | None) -> list[Source]:
    """The files of one side; `form` is the format of all of them, None if each is to be recognised.

    Raises UsageError, NoEvidenceError.
    """
    return [Source(arm=arm, path=file, form=form or _form(file)) for file in find(path)]


def _form(path: Path) -> SampleFormat:
    """The format, by the first line that shows it: one broken line must not hide the rest."""
    some = list(islice((line for line in lines(path) if line.strip()), _LINES_TO_TRY))
    if some and some[0].startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise NoEvidenceError(f"{path} is UTF-16: write it in UTF-8")
    forms = [recognise(line) for line in some]
    for form in forms:
        if form is not None:
            return form
    what = "is empty"
    if forms:
        first = next(number for number, line in enumerate(lines(path), start=1) if line.strip())
        why = read(SampleFormat.ROWS, some[0]).error
        what = f"holds no samples in any known form; line {first}: {why}"
    if some and some[0].lstrip().startswith(b"["):
        what = "is a JSON array: samples are one JSON object a line"
    raise NoEvidenceError(f"{path} {what}")


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file. Raises InfraError if it cannot be read."""
    try:
        with path.open("rb", buffering=BUFFER) as file:
            yield from file
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> InfraError | UsageError:
    """The error to raise for a file that the system refuses to read."""
    if isinstance(error, PermissionError):
        return UsageError(f"cannot read {path}: {error.strerror}", hint="make it readable")
    return InfraError(f"cannot read {path}: {error.strerror}", hint="look at the disk")


def records(source: Source) -> Iterator[tuple[str | None, bytes, int, int]]:
    """Every record of a file: its id in LMCache's format, else None; its bytes, offset and number.

    Raises NoEvidenceError.
    """
    if source.form is SampleFormat.LMCACHE:
        numbered = enumerate(blocks(lines(source.path)), start=1)
        try:
            for number, (identity, offset, length) in numbered:
                yield identity, content(source, offset, length), offset, number
        except AmbiguousError as error:
            raise NoEvidenceError(
                f"the blocks of {source.path} cannot be told apart: {error}"
            ) from error
        return
    offset = 0
    for number, line in enumerate(lines(source.path), start=1):
        if not line.isspace():
            yield None, line, offset, number
        offset += len(line)


def content(source: Source, offset: int, length: int) -> bytes:
    """So many bytes of a file from there on. Raises InfraError."""
    try:
        with source.path.open("rb", buffering=0) as file:
            data = os.pread(file.fileno(), length, offset)
    except OSError as error:
        raise unreadable(source.path, error) from error
    if len(data) < length:
        raise InfraError(
            f"{source.path} became shorter while it was read",
            hint="compare files that nobody writes to",
        )
    return data


def check(baseline: Sequence[Source], candidate: Sequence[Source]) -> None:
    """Raises UsageError if the two sides cannot be compared: other formats, or the same files."""
    forms = {source.form for source in (*baseline, *candidate)}
    if len(forms) > 1 and not all(form.is_api for form in forms):
        words = " and ".join(sorted(form.words for form in forms))
        raise UsageError(
            f"{words} do not compare: they do not hold the same of an answer",
            hint="give --format NAME",
        )
    for one, other in product(baseline, candidate):
        # Our own samples may hold both arms in one file. The system is asked, and not the names: a
        # link is the same file, too.
        if one.form is not SampleFormat.OURS and one.path.samefile(other.path):
            raise UsageError(
                f"both sides name {one.path}", hint="a file is always the same as itself"
            )


# --- one line by its bytes ---

_PLAIN = rb'[^"\\\x00-\x1f\x7f-\xff]*'  # a string that needs no decoding
# As our own SampleWriter writes it: the top-level keys in this order, with these spaces.
_OURS_HEAD = re.compile(
    rb'\{"arm": "(?P<arm>baseline|candidate)", "start": (?P<start>[1-9][0-9]{0,8}), '
    rb'"pass": (?P<pass>[1-9][0-9]{0,8}), "id": "(?P<id>'
    + _PLAIN
    + rb')", "status": 200, "error": null, "output": (?=\{)'
)
_DIGEST = b', "digest": "'
_OURS_TAIL = re.compile(
    rb', "digest": "[0-9a-f]{64}"(?:, "words_digest": (?:null|"[0-9a-f]{64}"))?'
    rb'(?:, "tokens_digest": (?:null|"[0-9a-f]{64}"))?'
    rb', "prompt_facts": (\{[^{}]*\}), "empty": false, "meta": (?=\{)'
)
# As OpenAI, vLLM and SGLang write it: `created` is a count of seconds.
_RESPONSE_HEAD = re.compile(
    rb'\{"id": ?"(?P<id>'
    + _PLAIN
    + rb')", ?(?:"object": ?"(?:chat\.completion|text_completion)", ?)?'
    rb'"created": ?(?:0|[1-9][0-9]{0,15}), ?(?=")'
)
HEADS = {SampleFormat.OURS: _OURS_HEAD, SampleFormat.RESPONSES: _RESPONSE_HEAD}


# msgspec checks the whole line as JSON and makes values only of the fields that have a type.
_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Usage(msgspec.Struct, gc=False):
    completion_tokens: _Count | None = None
    prompt_tokens: _Count | None = None


class _Response(AnswerSchema, gc=False):
    error: None = None  # anything else does not decode
    usage: _Usage | None = None
    completion_tokens: _Count | None = None  # of our own samples


class _SampleLine(msgspec.Struct, gc=False):
    output: _Response


class _Object(msgspec.Struct, gc=False):
    """Any JSON object."""


_response = msgspec.json.Decoder(decodable(_Response)).decode
_sample = msgspec.json.Decoder(decodable(_SampleLine)).decode
_object = msgspec.json.Decoder(decodable(_Object)).decode


def token(form: SampleFormat, line: bytes, at: int) -> bytes | None:
    """A SHA-256, the same for two lines only if the compared bytes are; None if unknown.

    The compared part begins at `at`, behind the head. In our own samples it ends where the value of
    `meta` begins. That must be the last thing in the line: the brace after it then closes the line's
    own object, so that no second `output` can follow.
    """
    if form is SampleFormat.RESPONSES:
        return sha256(memoryview(line)[at:]).digest()
    # The stored digest and what was asked are part of it: if they differ, the slow way looks at the
    # answers.
    tail = _OURS_TAIL.match(line, line.rfind(_DIGEST, at))
    if tail is None or not _ends_with_object(line[tail.end() :]):
        return None
    return sha256(memoryview(line)[at : tail.end()]).digest()


def _ends_with_object(rest: bytes) -> bool:
    """Whether `rest` is one object, the brace that closes the line, and its newline."""
    if not rest.endswith(b"}}\n") or not rest.isascii():
        return False
    try:
        _object(rest[:-2])
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def is_answer(form: SampleFormat, line: bytes) -> bool:
    """Whether a line is JSON throughout and holds a whole answer; False also means "unknown"."""
    try:
        # msgspec checks the UTF-8 of the strings that it decodes, and skips the others unchecked.
        if not line.isascii():
            line.decode("utf-8")
        response = _sample(line).output if form is SampleFormat.OURS else _response(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    choices = response.choices
    if response.object == "error" or not choices:
        return False
    # Nearly every answer has one choice: a plain call costs less than `all` and `map`.
    return _is_whole(choices[0]) if len(choices) == 1 else all(map(_is_whole, choices))


def _is_whole(choice: ChoiceSchema) -> bool:
    # null: the answer is not finished.
    if choice.finish_reason is None or choice.finish_reason in BROKEN_OFF:
        return False
    message = choice.message
    if message is None:
        return bool(choice.text)
    # The id of a tool call is random, and not compared: only the slow way can leave it out.
    if message.tool_calls or message.function_call:
        return False
    return bool(message.content or message.reasoning_content or message.reasoning)


# --- the starts of one file ---


# gc=False: records hold no cycles, and the collector would visit all of them again and again.
class SurveyRecord(Struct, frozen=True, gc=False):
    """One answer: its request, its pass, and where it is (`offset` and `length` in bytes, `line` from 1).

    `token` is the SHA-256 of its bytes, None if only the slow way can compare it.
    """

    id: str | None
    pass_: int
    token: bytes | None
    offset: int
    length: int
    line: int


class CollectedStart(Struct, kw_only=True):
    """One start of the comparison: `number` counts from 1 within its arm.

    `named` is the arm as its file names it, None if it does not. `columns` holds its answers by pass
    and request.
    """

    source: Source
    named: str | None
    arm: Arm = Arm.BASELINE
    number: int = 0
    records: list[SurveyRecord] = field(default_factory=list)
    columns: dict[int, dict[str, SurveyRecord]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`A1`, `B2`."""
        return f"{self.arm.letter}{self.number}"

    def record(self, request: str, number: int) -> SurveyRecord | None:
        """The answer to a request in one pass; None if there is none."""
        return self.columns.get(number, {}).get(request)

    def content(self, record: SurveyRecord) -> bytes:
        """The bytes of one of its records. Raises InfraError."""
        return content(self.source, record.offset, record.length)

    def entry(self, record: SurveyRecord) -> Entry:
        """One of its records, read the slow and complete way. Raises InfraError."""
        return read(self.source.form, self.content(record))


def read_starts(source: Source, answer_tokens: set[bytes]) -> list[CollectedStart]:
    """The starts of one file: one, or as many as our own samples name.

    `answer_tokens` are the tokens of lines that are known to hold an answer; it grows. Raises
    NoEvidenceError, InfraError.
    """
    starts: dict[tuple[str, int] | None, CollectedStart] = {}
    form = source.form
    head = HEADS[form].match if form in HEADS else None
    # A hundred thousand lines a second go through here: no call that can be avoided.
    for identity, line, offset, number in records(source):
        key = None
        match = head(line) if head else None
        mark = token(form, line, match.end()) if match else None
        # Lines with one token hold the same answer: one check is enough for all of them.
        if match and mark and (mark in answer_tokens or is_answer(form, line)):
            answer_tokens.add(mark)
            name = match["id"].decode("ascii")
            pass_ = 1
            if form is SampleFormat.OURS:
                key = match["arm"].decode(), int(match["start"])
                pass_ = int(match["pass"])
            record = SurveyRecord(name, pass_, mark, offset, len(line), number)
        elif match is None and is_control(line):
            continue
        else:
            entry = read(form, line)
            key = entry.group
            # The canonical digest of an answer that was read whole, but for what needs a closer look.
            mark = None
            if entry.digest is not None and not entry.empty:
                mark = digest([entry.digest, entry.prompt_facts]).encode()
            named = identity or entry.id
            record = SurveyRecord(named, entry.pass_, mark, offset, len(line), number)
        start = starts.get(key)
        if start is None:
            start = starts[key] = CollectedStart(source=source, named=key[0] if key else None)
        start.records.append(record)
    return _with_nameless(starts)


def _with_nameless(starts: dict[tuple[str, int] | None, CollectedStart]) -> list[CollectedStart]:
    """All starts of a file; an unreadable line names none, and belongs to some of them."""
    nameless = starts.pop(None, None)
    named = list(starts.values())
    if nameless is not None:
        # To the first of each arm, rather than to none: the answer that it held would not be missed.
        for first in {start.named: start for start in reversed(named)}.values():
            first.records.extend(nameless.records)
    return named or ([nameless] if nameless else [])


# --- both sides beside each other ---


class Survey(Struct, frozen=True, kw_only=True):
    """The requests of both sides, and where the files hold answers that may differ.

    `requests` are all, in order of first appearance, `odd` those that are not known to be the same
    everywhere. `passes` is how often each start got a request. `aligned` is what matches the
    answers: `id` or `line`.
    """

    starts: tuple[CollectedStart, ...]
    requests: Sequence[str]
    odd: Sequence[str]
    passes: int
    aligned: str
    notes: tuple[str, ...] = ()


def survey(baseline: Sequence[Source], candidate: Sequence[Source]) -> Survey:
    """Read both sides. Raises NoEvidenceError, InfraError."""
    answer_tokens: set[bytes] = set()
    of_baseline, notes = _choose(Arm.BASELINE, baseline, answer_tokens)
    of_candidate, more_notes = _choose(Arm.CANDIDATE, candidate, answer_tokens)
    starts = [*of_baseline, *of_candidate]
    _refuse_itself(starts)
    passes = _passes(starts)
    by_line = _by_line(starts)
    for start in starts:
        _align(start, by_line=by_line)
    # A dict, and not a set: requests stay in the order of the files.
    columns = (column for start in starts for column in start.columns.values())
    requests = list(dict.fromkeys(request for column in columns for request in column))
    return Survey(
        starts=tuple(starts),
        requests=requests,
        odd=[request for request in requests if not _is_same(request, starts, passes)],
        passes=passes,
        aligned="line" if by_line else "id",
        notes=(*notes, *more_notes),
    )


def _choose(
    arm: Arm, side: Sequence[Source], answer_tokens: set[bytes]
) -> tuple[list[CollectedStart], list[str]]:
    """The starts of one side, and notes. From a file that holds both arms, only the arm's own."""
    chosen: list[CollectedStart] = []
    notes = []
    for source in side:
        starts = read_starts(source, answer_tokens)
        arms = {start.named for start in starts}
        if {"baseline", "candidate"} <= arms:
            starts = [start for start in starts if start.named == arm.value]
        # A file of one arm may be given as either side: two candidates compare, too.
        elif not arms <= {None, arm.value}:
            notes.append(
                f"{source.path} holds only samples of the other arm; all are taken as the {arm}'s"
            )
        for start in starts:
            start.arm, start.number = arm, len(chosen) + 1
            chosen.append(start)
    if not chosen:
        raise NoEvidenceError(f"there is no sample of the {arm}")
    return chosen, notes


def _refuse_itself(starts: Sequence[CollectedStart]) -> None:
    """Raises UsageError if the two sides are the same samples."""
    arms: dict[tuple[str, str | None], Arm] = {}
    for start in starts:
        path = start.source.path
        # Resolved: a link and a relative path name one file, too.
        samples = str(path.resolve()), start.named
        if arms.setdefault(samples, start.arm) is not start.arm:
            raise UsageError(
                f"both sides name {path}, which does not hold both arms",
                hint="samples are always the same as themselves: name another file",
            )


def _passes(starts: Sequence[CollectedStart]) -> int:
    """How often each start got a request. Raises NoEvidenceError if not all the same.

    Also if answers of a whole pass are missing.
    """
    passes = {}
    for start in starts:
        there = {record.pass_ for record in start.records}
        passes[start.name] = max(there)
        if len(there) < max(there):
            raise NoEvidenceError(
                f"{start.name} has answers of pass {max(there)}, and of {len(there)} passes in all"
            )
    if len(set(passes.values())) > 1:
        counts = ", ".join(f"{name} {number}" for name, number in passes.items())
        raise NoEvidenceError(f"the starts have different numbers of passes: {counts}")
    return next(iter(passes.values()))


def _by_line(starts: Sequence[CollectedStart]) -> bool:
    """Whether lines are compared instead of ids. Raises NoEvidenceError if neither can be."""
    ids = {start.name: {record.id for record in start.records} - {None} for start in starts}
    as_many = len({len(start.records) for start in starts}) == 1
    if not any(ids.values()):
        if as_many:
            return True
        raise NoEvidenceError("the answers have no ids, and the files do not hold as many of them")
    # One common id is enough to align by id: the requests of one side alone are then unanswered.
    baseline, candidate = (
        set().union(*(ids[start.name] for start in starts if start.arm is arm)) for arm in Arm
    )
    if not baseline.isdisjoint(candidate):
        return False
    # Random: the server made the ids up, another one for each answer. An id that two files share
    # names a request. Then the order of lines proves nothing.
    together = sum(map(len, ids.values()))
    is_random = (
        all(start.source.form.has_random_ids for start in starts)
        and len(set().union(*ids.values())) == together
    )
    if as_many and is_random:
        return True
    raise NoEvidenceError("the two sides have no request id in common")


def _align(start: CollectedStart, *, by_line: bool) -> None:
    """Put every record of a start under its request and pass. Raises NoEvidenceError.

    Of two answers to a request in one pass neither is known to be the answer.
    """
    for number, record in enumerate(start.records, start=1):
        # An unreadable line has no id: its place in the file stands for it.
        name = f"line {number}" if by_line else record.id or f"line {record.line}"
        column = start.columns.setdefault(record.pass_, {})
        first = column.setdefault(name, record)
        if first is not record:
            raise NoEvidenceError(
                f"{start.source.path} answers the request {name} twice in one start: "
                f"in line {first.line} and in line {record.line}"
            )


def _is_same(request: str, starts: Sequence[CollectedStart], passes: int) -> bool:
    """Whether every start has one answer in every pass, and the bytes of all are the same."""
    tokens: set[bytes | None] = set()
    for start in starts:
        if len(start.columns) < passes:
            return False
        for column in start.columns.values():
            record = column.get(request)
            tokens.add(record.token if record else None)
            if None in tokens or len(tokens) > 1:
                return False
    return True
