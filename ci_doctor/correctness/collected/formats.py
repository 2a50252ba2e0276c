# SPDX-License-Identifier: Apache-2.0
"""The formats of collected samples: how one is told from another, and one line of each as a value. Pure."""

import json
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.errors import UsageError
from ci_doctor.load.answer_items import BROKEN_OFF, NotAnAnswerError
from ci_doctor.load.canonical import Canonical, check_output, digest, encode, is_empty_output
from ci_doctor.load.protocols import of_answer
from ci_doctor.load.requests import read_collected
from ci_doctor.load.schema import parse_json, why_no_json
from ci_doctor.model.words import did_you_mean

# --- the formats of collected samples, and how one is told from another ---

# The keys under which a row names its request. The first key that is there counts. `doc_id` is
# lm-eval's.
ID_KEYS = ("id", "request_id", "custom_id", "prompt_id", "doc_id", "index", "idx")
# The keys under which a row holds the generated text. `resps` is lm-eval's, `generated_text` is
# vLLM's, `output` SGLang's and many others'.
TEXT_KEYS = (
    "generated_text",
    "output_text",
    "output",
    "text",
    "completion",
    "response",
    "generation",
    "answer",
    "resps",
)
# Those under which it holds what was asked.
PROMPT_KEYS = ("prompt", "messages", "input", "inputs", "question")
_BLOCK = re.compile(rb"(?=[^\s:]*[-_0-9])[^\s:]+:\r?\n?")


class SampleFormat(StrEnum):
    """The name is what `--format` takes."""

    OURS = "ours"
    LMCACHE = "lmcache"
    RESPONSES = "responses"
    BATCH = "batch"
    ROWS = "rows"

    @property
    def words(self) -> str:
        """For a report."""
        return _WORDS[self]

    @property
    def is_api(self) -> bool:
        """Whether it holds whole answers of an API, which compare across such formats."""
        return self in {SampleFormat.OURS, SampleFormat.RESPONSES, SampleFormat.BATCH}

    @property
    def has_random_ids(self) -> bool:
        """Whether the server names the answers, so that two runs may have no id in common."""
        return self in {SampleFormat.RESPONSES, SampleFormat.ROWS}


_WORDS = {
    SampleFormat.OURS: "samples of ci-doctor",
    SampleFormat.LMCACHE: "LMCache's text format",
    SampleFormat.RESPONSES: "response objects",
    SampleFormat.BATCH: "OpenAI batch output",
    SampleFormat.ROWS: "rows of generated text",
}


def named(word: str) -> SampleFormat:
    """The format of that name. Raises UsageError, with the nearest name."""
    if word in set(SampleFormat):
        return SampleFormat(word)
    names = [str(each) for each in SampleFormat]
    raise UsageError(
        f"there is no format `{word}`",
        hint=did_you_mean(word, names) or f"known formats: {', '.join(names)}",
    )


def recognise(line: bytes) -> SampleFormat | None:
    """The format of a file, by one of its lines; None if the line does not show it."""
    if _BLOCK.fullmatch(line):
        return SampleFormat.LMCACHE
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return _of_object(value) if isinstance(value, dict) else None


def _of_object(value: dict[str, object]) -> SampleFormat | None:
    # From the most particular to the most general: a batch line holds a response, and a row may
    # hold any key.
    if {"arm", "start", "pass", "id"} <= value.keys():
        return SampleFormat.OURS
    if "custom_id" in value and not value.keys().isdisjoint({"response", "error"}):
        return SampleFormat.BATCH
    if _is_response(value):
        return SampleFormat.RESPONSES
    if not value.keys().isdisjoint(TEXT_KEYS):
        return SampleFormat.ROWS
    # A failed answer holds nothing but its error, whatever the format of the others.
    if value.keys() == {"error"} or of_answer(value) is not None:
        return SampleFormat.RESPONSES
    return None


def _is_response(value: dict[str, object]) -> bool:
    """Whether an object is an answer of an API, whatever texts it holds."""
    if "choices" in value or value.get("object") == "error":
        return True
    # The answers of OpenAI and vLLM name their type. A row may hold `scores` beside its text.
    return "object" in value and of_answer(value) is not None


# --- lMCache's text format: `{id}:`, then the lines of the answer, block after block ---
# The format is ambiguous: an answer may hold a line that looks like the beginning of a block. The
# rule: `{id}:` begins a block if the id has the same shape as the id in the first line of the file.
# The shape of `chatcmpl-WJidmXp_0` is `chatcmpl-`, seven letters or digits, `_`, digits. Two kinds of
# file are refused: one that does not begin with an id, and one in which an id begins two blocks.

_PARTS = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9]")
# An id holds a digit, a dash or an underscore: `Answer:` is prose.
_FIRST = re.compile(r"(?=[^\s:]*[-_0-9])[^\s:]+")
# What OpenAI and vLLM put before the random part.
_ID_WORDS = {"chatcmpl", "cmpl", "resp", "req", "request"}


class AmbiguousError(ValueError):
    """The blocks of a file cannot be told apart; the text says why."""


def shape(identity: str) -> str:
    """The regular expression of ids that look like `identity`."""
    pattern = ""
    for part in _PARTS.findall(identity):
        # A letter of another script stands for itself, in every id.
        if part in _ID_WORDS or not part.isascii() or not part.isalnum():
            pattern += re.escape(part)
        else:
            # Counters grow by a digit; a random part keeps its length.
            pattern += "[0-9]+" if part.isdigit() else f"[A-Za-z0-9]{{{len(part)}}}"
    return pattern


def blocks(lines: Iterable[bytes]) -> Iterator[tuple[str, int, int]]:
    """Each block as its id, and the offset and the length of its content in bytes.

    The newline that ends the content does not count. Raises AmbiguousError.
    """
    begins: re.Pattern[bytes] | None = None
    ids: set[bytes] = set()
    identity = b""
    begin = 0
    offset = 0
    newline = True
    for line in lines:
        if begins is None:
            begins = _beginning(line)
        match = begins.fullmatch(line)
        if match:
            if identity:
                yield identity.decode(), begin, max(0, offset - begin - 1)
            identity = match[1]
            if identity in ids:
                raise AmbiguousError(
                    f"two lines `{identity.decode()}:` look like the beginning of a block"
                )
            ids.add(identity)
            begin = offset + len(line)
        offset += len(line)
        newline = line.endswith(b"\n")
    if identity:
        # The writer ends every block with a newline. Without one, all of the rest is the answer.
        yield identity.decode(), begin, max(0, offset - begin - newline)


def _beginning(line: bytes) -> re.Pattern[bytes]:
    """The pattern of lines that begin a block, by the first line of the file."""
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    identity = text.removesuffix(":")
    if identity == text or not _FIRST.fullmatch(identity):
        # Cut: the first line may be a whole answer of a file in another format.
        raise AmbiguousError(f"the first line is not `id:` but {text[:60]!r}")
    pattern = shape(identity).encode()
    begins = re.compile(b"(" + pattern + rb"):\r?\n?")
    # Else the first block would be left out, and no difference in it be seen.
    if not begins.fullmatch(line):
        raise AmbiguousError(f"the id in the first line is not Unicode: {text[:60]!r}")
    return begins


# --- one line of a file of samples as a value: the slow and complete way ---

_MOST_ERROR = 200  # characters; a server may answer with a page of HTML
_MOST_COUNT = 999_999_999  # as in `pieces`


class Entry(Struct, frozen=True, kw_only=True):
    """One answer, or why there is none: `output` with its `digest`, or `error`.

    `group` is (arm, start) if the line names them; `pass_` counts from 1; `id` is None if the line
    has none. `prompt_facts` is what the server reports of the prompt, `empty` whether the answer
    holds no text.
    """

    id: str | None = None
    group: tuple[str, int] | None = None
    pass_: int = 1
    output: dict[str, Any] | None = None
    digest: str | None = None
    error: str | None = None
    prompt_facts: dict[str, Any] = {}
    empty: bool = False


def read(form: SampleFormat, content: bytes) -> Entry:
    """The value of one line, or of one block's content in LMCache's format.

    Never raises: what cannot be read is an error.
    """
    if form is SampleFormat.LMCACHE:
        return _text_entry(None, [content.decode("utf-8", "surrogateescape")])
    try:
        # Also with the mark that editors of Windows put at the beginning of a file.
        value = parse_json(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return Entry(error="not JSON: no text in UTF-8")
    except ValueError as error:
        return Entry(error=f"not JSON: {why_no_json(error)}")
    if not isinstance(value, dict):
        return Entry(error=f"a JSON {type(value).__name__} instead of an object")
    try:
        return _READERS[form](value, content)
    except (NotAnAnswerError, RecursionError) as error:
        group = _group(value) if form is SampleFormat.OURS else None
        reason = str(error)
        if isinstance(error, RecursionError):
            reason = "nested too deep"
        return Entry(id=_identity(value), error=reason, group=group)


def _identity(value: dict[str, Any]) -> str | None:
    named = (value.get(key) for key in ID_KEYS)
    return next((str(each) for each in named if isinstance(each, str) or _is_number(each)), None)


def _is_number(value: object) -> TypeGuard[int]:
    # True is an int to Python, and no number to JSON.
    return isinstance(value, int) and not isinstance(value, bool)


def _group(value: dict[str, Any]) -> tuple[str, int] | None:
    arm = value.get("arm")
    start = value.get("start")
    # A tuple, and not a set: `arm` may be a list, which has no hash.
    if arm not in ("baseline", "candidate") or not _is_count(start):
        return None
    return str(arm), start


def _is_count(value: object) -> TypeGuard[int]:
    """Whether a start or a pass may have this number: they count from 1."""
    return _is_number(value) and 1 <= value <= _MOST_COUNT


def _ours(value: dict[str, Any], _content: bytes) -> Entry:
    """A line of samples.jsonl."""
    group = _group(value)
    number = value.get("pass")
    identity = value.get("id")
    if group is None or not _is_count(number) or not isinstance(identity, str):
        return Entry(
            error="no sample of ci-doctor: `arm`, `start`, `pass` or `id` is missing or wrong"
        )
    entry = Entry(id=identity, group=group, pass_=number)
    error, output, status = value.get("error"), value.get("output"), value.get("status", 200)
    if error is not None or not isinstance(output, dict):
        return replace(entry, error=str(error or "no answer"))
    if status not in (None, 200):
        return replace(entry, error=f"HTTP {status}"[:_MOST_ERROR])
    facts = value.get("prompt_facts")
    prompt_facts = facts if isinstance(facts, dict) else {}
    try:
        check_output(output)
        encode(prompt_facts)  # they are compared by their digests
        # Computed anew: the digest in the file may be wrong, and only the answer itself counts.
        own = digest(output)
    except NotAnAnswerError as reason:
        return replace(entry, error=str(reason))
    empty = is_empty_output(output)
    return replace(entry, output=output, digest=own, prompt_facts=prompt_facts, empty=empty)


def _response(value: dict[str, Any], content: bytes) -> Entry:
    identity = _identity(value)
    if value.get("object") == "error":
        return Entry(id=identity, error=f"an error: {value.get('message')}"[:_MOST_ERROR])
    return _canonical_entry(identity, read_collected(content))


def _batch(value: dict[str, Any], _content: bytes) -> Entry:
    """A line of OpenAI's batch output (API reference, "The request output object")."""
    custom_id, response = value.get("custom_id"), value.get("response")
    name = custom_id if isinstance(custom_id, str) else None
    if value.get("error") or not isinstance(response, dict):
        return _failed(name, value)
    status = response.get("status_code", 200)
    if status != 200:
        return Entry(id=name, error=f"HTTP {status}")
    try:
        return _canonical_entry(name, read_collected(json.dumps(response.get("body")).encode()))
    except NotAnAnswerError as error:
        # Caught here, because only a batch line names its request outside the answer.
        return Entry(id=name, error=str(error))


def _failed(identity: str | None, value: dict[str, Any]) -> Entry:
    return Entry(id=identity, error=f"an error: {json.dumps(value.get('error'))}"[:_MOST_ERROR])


def _canonical_entry(identity: str | None, answer: Canonical) -> Entry:
    return Entry(
        id=identity,
        output=answer.output,
        digest=answer.digest,
        prompt_facts=answer.prompt_facts,
        empty=answer.empty,
    )


def _row(value: dict[str, Any], _content: bytes) -> Entry:
    identity = _identity(value)
    if value.get("error") or value.get("success") is False:
        return _failed(identity, value)
    reason = _finish_reason(value)
    if reason in BROKEN_OFF:
        return Entry(id=identity, error=f"the server broke the answer off: finish_reason {reason}")
    given = next((value[key] for key in TEXT_KEYS if key in value), None)
    texts = list(_leaves(given))
    # Strings, or nested lists of them (lm-eval's `resps`). Half of an answer must not pass for all.
    if not texts or not all(isinstance(text, str) for text in texts):
        return Entry(id=identity, error="no generated text in the row")
    prompts = {key: value[key] for key in PROMPT_KEYS if key in value}
    return replace(_text_entry(identity, texts), prompt_facts=prompts)


def _finish_reason(row: dict[str, Any]) -> object:
    """Why an answer ended: as the row says, or in the words of SGLang (`meta_info`)."""
    meta = row.get("meta_info")
    reason = row.get("finish_reason", meta.get("finish_reason") if isinstance(meta, dict) else None)
    return reason.get("type") if isinstance(reason, dict) else reason


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _text_entry(identity: str | None, texts: list[str]) -> Entry:
    output = {"choices": [{"index": index, "text": text} for index, text in enumerate(texts)]}
    return Entry(id=identity, output=output, digest=digest(output), empty=not any(texts))


_READERS = {
    SampleFormat.OURS: _ours,
    SampleFormat.RESPONSES: _response,
    SampleFormat.BATCH: _batch,
    SampleFormat.ROWS: _row,
}
