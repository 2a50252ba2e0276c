# SPDX-License-Identifier: Apache-2.0
"""Pure. The shapes of completions and chats, streamed ones too: OpenAI's schema, and what other servers add to it.

Read from OpenAI's API reference (completions and chat completions, whole and in chunks), vLLM's
`entrypoints/openai/protocol.py`, SGLang's `srt/entrypoints/openai/protocol.py`, TGI's
`router/src/lib.rs`, llama.cpp's `tools/server` and LMCache's `disagg_proxy_server.py`. Every field
that is compared has a type here. Fields without a place here are not compared, and may hold
anything. A `finish_reason` may be any word: servers have their own (TGI's `eos_token`).

Other endpoints have other shapes, which a protocol reads. What a protocol makes of them
and calls `choices` has a shape of this one, too. JSON that two readers may take in different ways is none.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ci_doctor.decodable import decodable
from ci_doctor.load.answer_items import NotAnAnswerError, index_of


def parse_json(text: bytes | str) -> Any:
    """The value of a JSON text (RFC 8259).

    Raises ValueError, with the reason, for what is not JSON, for NaN, Infinity and numbers beyond
    all doubles, for text that is not Unicode, for a key that stands twice in one object (one reader takes the first, one the
    last), and for nesting too deep to read.
    """
    try:
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_only_once,
        )
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def why_no_json(error: ValueError) -> str:
    """Why `parse_json` refused one line: its own words count lines as well, and it is always the first there."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} in column {error.colno}"
    return str(error)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(written: str) -> float:
    number = float(written)
    if math.isinf(number):
        raise ValueError(
            f"{written[:80]} is beyond all doubles, and cannot be written as JSON again"
        )
    return number


def _only_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # The parser itself keeps the last of equal keys, without a word.
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    (repeated, _), *_ = Counter(key for key, _ in pairs).most_common(1)
    # Cut off: a key may be as long as the whole text.
    raise ValueError(f"the key {json.dumps(repeated)[:80]} stands twice in one object")


Tokens = list[int] | None
Stop = int | str | list[int] | None  # the text, the token or (SGLang) the tokens that stopped it
Empty = Annotated[list[Any], Meta(max_length=0)]


# gc=False: the values hold no cycles, and the collector would look at each of a hundred thousand.
class TokenEntrySchema(Struct, gc=False):
    """One token in a chat's log-probabilities; its alternatives have the same shape."""

    token: str | None = None
    logprob: float | None = None
    bytes: Tokens = None
    top_logprobs: "list[TokenEntrySchema] | None" = None


class LogprobsSchema(Struct, gc=False):
    """Log-probabilities: lists side by side for completions, `content` and `refusal` for chats."""

    content: list[TokenEntrySchema] | None = None
    refusal: list[TokenEntrySchema] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    text_offset: list[int] | None = None
    top_logprobs: list[dict[str, float | None] | None] | None = None


PromptLogprobs = list[dict[str, Any] | None] | None


class ToolCallSchema(Struct, gc=False):
    """A call of a tool: of a `function`, or of a `custom` one, whose `input` is free text.

    TGI writes the arguments as an object, the others as its text. As ci-doctor keeps it, name and
    arguments stand in the call itself.
    """

    index: int | None = None
    function: "ToolCallSchema | None" = None
    custom: "ToolCallSchema | None" = None
    name: str | None = None
    arguments: str | dict[str, Any] | None = None
    input: str | None = None


class MessageSchema(Struct, gc=False):
    """What a chat's assistant writes: the message of an answer, or one chunk's `delta` of it."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    audio: dict[str, Any] | None = None
    tool_calls: list[ToolCallSchema] | None = None
    function_call: ToolCallSchema | None = None


class ChoiceSchema(Struct, gc=False):
    """One choice: of an answer in one piece (`text` or `message`), or of a chunk (`text`, `delta`).

    `finish_reason` is null until a choice is finished.
    """

    index: int = 0
    text: str | None = None
    message: MessageSchema | None = None
    delta: MessageSchema | None = None
    finish_reason: str | UnsetType | None = UNSET
    stop_reason: Stop = None
    matched_stop: Stop = None
    token_ids: Tokens = None
    logprobs: LogprobsSchema | Empty | None = None
    prompt_logprobs: PromptLogprobs = None


class AnswerSchema(Struct, gc=False):
    """An answer in one piece, or one chunk of a stream.

    `usage` is read by itself: what is wrong with a count has a sentence of its own.
    """

    choices: list[ChoiceSchema] | None = None
    object: str | None = None
    model: str | None = None
    usage: Any = None
    prompt_logprobs: PromptLogprobs = None


def problem(value: Any) -> str | None:
    """What is wrong with the shape of a parsed answer or chunk; None if nothing is."""
    try:
        msgspec.convert(value, decodable(AnswerSchema))
    except msgspec.ValidationError as error:
        expected, _, place = str(error).partition(" - at `$")
        place = place.strip("`.")
        if place:
            return f"`{place}`: {expected}"
        return expected
    except UnicodeEncodeError:
        return "a key is not Unicode"
    except RecursionError:
        return "nested too deep"
    return None


def parse_object(text: bytes | str) -> dict[str, Any]:
    """Parse a JSON object that is no error report. Raises NotAnAnswerError for anything else."""
    return as_object(parse_value(text))


def as_object(value: Any) -> dict[str, Any]:
    """`value`, which must be a JSON object. Raises NotAnAnswerError."""
    if not isinstance(value, dict):
        raise NotAnAnswerError(f"a JSON {type(value).__name__} instead of an object")
    return value


def parse_value(text: bytes | str) -> Any:
    """Parse JSON that is no error report. Raises NotAnAnswerError for anything else.

    NaN and Infinity are not JSON (RFC 8259), and a model that gives them is broken, whether or not
    the other arm is too.
    """
    try:
        value = parse_json(text)
    except ValueError as error:
        raise NotAnAnswerError(f"not JSON: {error}") from error
    report = _error_report(value)
    if report is not None:
        shown = json.dumps(report)[:200]
        raise NotAnAnswerError(f"an error in a 200 response: {shown}")
    return value


def _error_report(value: Any) -> Any:
    """What an answer holds of an error; None if it reports none."""
    if not isinstance(value, dict):
        return None
    if value.get("error"):
        return value["error"]
    # vLLM before 0.10 and SGLang: the report is the whole object.
    if value.get("object") == "error":
        return value.get("message", value)
    return None


# --- a streamed answer (`"stream": true`), folded into the shape of one that is not streamed ---
# The chunks are those of OpenAI's API reference and of vLLM: `choices` with `text` or `delta`, at
# last `data: [DONE]`. Their shape is in `schema`. A choice is finished by a chunk with its
# `finish_reason`: a server whose model is gone in mid-answer still sends `[DONE]`. Some servers write
# "" until then instead of null. What still differs from the same answer in one piece:
#
# - Usage comes only if the request has `"stream_options": {"include_usage": true}`. Without it the
#   completion tokens are counted from `token_ids` if every choice has them, and are otherwise
#   missing, in the digest too.
# - A server may leave out of a stream what it has in one piece: vLLM streams no `prompt_logprobs`
#   for chats.
# - Audio cannot be put together again and is refused.
#
# A text/event-stream is read by the rules of the HTML standard (section 9.2.6, "Interpreting an event
# stream"), with one departure: the standard replaces bytes that are not UTF-8. Here they are an error,
# since two broken answers must not become equal.


CONTENT_TYPE = "text/event-stream"
# Not splitlines(): U+2028 and the like end no line here.
_LINE_END = re.compile(r"\r\n|\n|\r")


class StreamEvent(Struct, frozen=True, kw_only=True):
    """`name` is "message" if the stream gives none; `data` has no line end at its end."""

    name: str
    data: str


def is_event_stream(content_type: str) -> bool:
    """Whether a Content-Type header names an event stream, whatever its parameters."""
    media_type, _, _ = content_type.partition(";")
    return media_type.strip().lower() == CONTENT_TYPE


def begins_as_stream(body: bytes) -> bool:
    """Whether a body begins with a field or a comment of an event stream, and so is no JSON."""
    return body.removeprefix(b"\xef\xbb\xbf").startswith((b"data:", b"event:", b"id:", b":"))


def events(body: bytes) -> Iterator[StreamEvent]:
    """The events of a whole stream in order.

    One that no blank line ends is left out: the stream broke off in it. Comments, `id`, `retry` and
    unknown fields hold no part of an answer and are left out too. Raises ValueError if the body is
    not UTF-8; lone surrogates pass, as in the JSON reader.
    """
    text = body.decode("utf-8", "surrogatepass").removeprefix("\ufeff")
    # What follows the last line end is a line that was not sent to its end.
    *lines, _unfinished = _LINE_END.split(text)
    name = ""
    data: list[str] = []
    for line in lines:
        if not line:
            joined = "\n".join(data)
            if joined:
                yield StreamEvent(name=name or "message", data=joined)
            name = ""
            data = []
            continue
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ")


DONE = "[DONE]"
_TEXT_KEYS = ("content", "reasoning_content", "reasoning", "refusal")
_CALL_KEYS = ("name", "arguments", "input")
_FOLDED_APART = frozenset({"delta", "text", "logprobs", "token_ids", "index", "finish_reason"})


def folded(body: bytes) -> dict[str, Any]:
    """The whole body of a 200 response of type text/event-stream as one response.

    Raises NotAnAnswerError if the stream holds an error event, leaves a choice unfinished or does not
    end with `data: [DONE]`.
    """
    return fold(_chunks(body))


def _chunks(body: bytes) -> Iterator[dict[str, Any]]:
    done = False
    try:
        for event in events(body):
            if done:
                raise NotAnAnswerError(f"the stream goes on after {DONE}")
            if event.name == "error":
                raise NotAnAnswerError(f"an error in the stream: {event.data[:200]}")
            # The end is a word and no JSON.
            done = event.data.strip() == DONE
            if not done:
                yield parse_object(event.data)
    except UnicodeDecodeError as error:
        raise NotAnAnswerError(f"not UTF-8: {error}") from error
    if not done:
        raise NotAnAnswerError(f"the stream breaks off: no {DONE} at its end")


def fold(chunks: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The chunks of one stream as one response. Raises NotAnAnswerError for what is no chunk."""
    whole: dict[str, Any] = {}
    # By index, since choices of one request arrive interleaved.
    growing: dict[int, _Choice] = {}
    for chunk in chunks:
        _check(chunk)
        _keep(whole, chunk)
        for part in chunk.get("choices") or ():
            index = index_of(part)
            if index not in growing:
                growing[index] = _Choice(index)
            growing[index].add(part)
    choices = [growing[index].value() for index in sorted(growing)]
    whole["choices"] = choices
    if "usage" not in whole:
        count = _count_tokens(choices)
        if count is not None:
            whole["usage"] = {"completion_tokens": count}
    return whole


def _check(chunk: dict[str, Any]) -> None:
    fault = problem(chunk)
    if fault is not None:
        raise NotAnAnswerError(f"a chunk outside the API's schema: {fault}")
    # The chunk with the usage has an empty list of choices, which a server may leave out.
    if chunk.get("choices") is None and not chunk.get("usage"):
        raise NotAnAnswerError("a chunk without `choices`")


def _keep(whole: dict[str, Any], chunk: dict[str, Any]) -> None:
    """Keep the first value of each key beside the choices, and the last usage (the total)."""
    for key, value in chunk.items():
        # vLLM's `continuous_usage_stats` sends a running count with every chunk.
        is_kept = key == "usage" or (key not in whole and key != "choices")
        if value is not None and is_kept:
            whole[key] = value


def _count_tokens(choices: Iterable[dict[str, Any]]) -> int | None:
    """How many tokens all choices have; None if one does not list its tokens."""
    ids: list[Any] = [choice.get("token_ids") for choice in choices]
    if not ids or not all(isinstance(each, list) for each in ids):
        return None
    return sum(map(len, ids))


Part = dict[str, Any]  # of a chunk or of an answer, as JSON gives it
Pieces = dict[str, list[str]]  # of texts, by the key that they belong to


class _Choice:
    """One choice as it grows. Text is kept in pieces: joining at each chunk is quadratic."""

    def __init__(self, index: int) -> None:
        self._last: Part = {"index": index}
        self._lists: Part = {}
        self._logprobs: Part = {}
        self._kinds: set[str] = set()  # a chat sends `delta`, a completion `text`
        self._texts: Pieces = {}
        self._calls: dict[int, Pieces] = {}
        self._function: Pieces = {}
        self._role: Any = None

    def add(self, part: Part) -> None:
        if "finish_reason" in self._last and _has_words(part):
            raise NotAnAnswerError("a choice goes on after its `finish_reason`")
        kind = next((key for key in ("delta", "text") if key in part), None)
        if kind is None:
            raise NotAnAnswerError("a choice of a chunk holds neither `text` nor `delta`")
        self._kinds.add(kind)
        self._add_words(part if kind == "text" else part["delta"] or {})
        for key, value in (part.get("logprobs") or {}).items():
            _extend(self._logprobs, key, value)
        _extend(self._lists, "token_ids", part.get("token_ids"))
        if part.get("finish_reason"):
            self._last["finish_reason"] = part["finish_reason"]
        # Of anything else, such as the stop reason, the last value is the answer's.
        for key, value in part.items():
            if value is not None and key not in _FOLDED_APART:
                self._last[key] = value

    def _add_words(self, part: Part) -> None:
        """Add what the model wrote."""
        if part.get("audio") is not None:
            raise NotAnAnswerError("audio in a stream cannot be compared")
        # Some servers send the role with every chunk, most with the first alone.
        self._role = self._role or part.get("role")
        _append(self._texts, part, ("text", *_TEXT_KEYS))
        _append(self._function, part.get("function_call") or {}, _CALL_KEYS)
        for call in part.get("tool_calls") or ():
            index = call.get("index")
            # Parallel calls arrive interleaved; without an index their pieces cannot be told apart.
            if index is None:
                raise NotAnAnswerError("a streamed tool call has no `index`")
            pieces = self._calls.setdefault(index, {})
            _append(pieces, call.get("function") or call.get("custom") or {}, _CALL_KEYS)

    def value(self) -> Part:
        if len(self._kinds) > 1:
            raise NotAnAnswerError("a choice is streamed as `text` and as `delta`")
        if "finish_reason" not in self._last:
            raise NotAnAnswerError("the stream breaks off: a choice without a `finish_reason`")
        choice = self._last | self._lists
        choice["logprobs"] = self._logprobs or None
        words: Part = dict(_joined(self._texts))
        if "text" in self._kinds:
            choice["text"] = words.get("text", "")
            return choice
        if self._role:
            words["role"] = self._role
        # By their index, in which form an answer in one piece has them.
        calls = [{"function": _joined(self._calls[index])} for index in sorted(self._calls)]
        if calls:
            words["tool_calls"] = calls
        if self._function:
            words["function_call"] = _joined(self._function)
        choice["message"] = words
        return choice


def _has_words(part: Part) -> bool:
    """Whether a chunk adds to a text. What servers send after the end has none: a role, a count."""
    delta = part.get("delta") or {}
    texts = [part.get("text"), *(delta.get(key) for key in _TEXT_KEYS)]
    return any(texts) or bool(delta.get("tool_calls"))


def _append(pieces: Pieces, part: Part, keys: Iterable[str]) -> None:
    """Add the next piece of each text that `part` has."""
    for key in keys:
        value = part.get(key)
        if isinstance(value, dict):
            # TGI writes the arguments of a call as an object, and in one chunk.
            value = json.dumps(value)
        if value is not None:
            pieces.setdefault(key, []).append(value)


def _joined(pieces: Pieces) -> dict[str, str]:
    return {key: "".join(parts) for key, parts in pieces.items()}


def _extend(lists: Part, key: str, value: Any) -> None:
    """Add to what `lists` holds under `key`: a list grows, anything else is replaced."""
    if value is None:
        return
    is_list = isinstance(value, list)
    before = lists.get(key)
    if before is not None and isinstance(before, list) != is_list:
        raise NotAnAnswerError(f"`{key}` is a list in one chunk and none in another")
    if is_list:
        # In place: a new list for each chunk would take quadratic time.
        grown = lists.setdefault(key, [])
        grown.extend(value)
    else:
        lists[key] = value
