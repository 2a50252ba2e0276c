# SPDX-License-Identifier: Apache-2.0
"""Pure. A streamed answer (`"stream": true`), folded into the shape of one that is not streamed.

The chunks are those of OpenAI's API reference and of vLLM: `choices` with `text` or `delta`, at
last `data: [DONE]`. Their shape is in `schema`. A choice is finished by a chunk with its
`finish_reason`: a server whose model is gone in mid-answer still sends `[DONE]`. Some servers write
"" until then instead of null. What still differs from the same answer in one piece:

- Usage comes only if the request has `"stream_options": {"include_usage": true}`. Without it the
  completion tokens are counted from `token_ids` if every choice has them, and are otherwise
  missing, in the digest too.
- A server may leave out of a stream what it has in one piece: vLLM streams no `prompt_logprobs`
  for chats.
- Audio cannot be put together again and is refused.

A text/event-stream is read by the rules of the HTML standard (section 9.2.6, "Interpreting an event
stream"), with one departure: the standard replaces bytes that are not UTF-8. Here they are an error,
since two broken answers must not become equal.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from ci_doctor.load import schema
from ci_doctor.load.answer_items import NotAnAnswerError, index_of
from ci_doctor.load.canonical import parse_object

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
    problem = schema.problem(chunk)
    if problem is not None:
        raise NotAnAnswerError(f"a chunk outside the API's schema: {problem}")
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
