# SPDX-License-Identifier: Apache-2.0
"""A streamed answer (`"stream": true`) folded into the shape of one that is not streamed. Pure.

The chunks are those of OpenAI's API reference and of vLLM: `choices` with `text` or `delta`, at last `data: [DONE]`.
What still differs from the same answer in one piece:

- Usage comes only where the request has `"stream_options": {"include_usage": true}`. Without it the completion tokens
  are counted from `token_ids` where every choice has them, and are otherwise missing, in the digest too.
- A server may leave out of a stream what it tells in one piece: vLLM streams no `prompt_logprobs` for chats.
- Audio cannot be put together again and is refused.
"""

from collections.abc import Iterator
from typing import Any

from ci_doctor.load.canonical import (
    Canonical,
    NotAnAnswerError,
    canonicalise_value,
    index_of,
    parse_object,
)
from ci_doctor.load.event_stream import events

DONE = "[DONE]"
_SPOKEN = ("content", "reasoning_content", "reasoning", "refusal")
_CALLED = ("name", "arguments")


def canonicalise_stream(body: bytes, expected: int | None = None) -> Canonical:
    """As `canonicalise`, for the whole body of a 200 response of type text/event-stream.

    Raises NotAnAnswerError also where the stream holds an error event or does not end with `data: [DONE]`.
    """
    return canonicalise_value(fold(_chunks(body)), expected)


def _chunks(body: bytes) -> Iterator[dict[str, Any]]:
    done = False
    try:
        for event in events(body):
            if done:
                raise NotAnAnswerError(f"the stream goes on after {DONE}")
            if event.name == "error":
                raise NotAnAnswerError(f"an error in the stream: {event.data[:200]}")
            done = event.data.strip() == DONE
            if not done:
                yield parse_object(event.data)
    except UnicodeDecodeError as error:
        raise NotAnAnswerError(f"not UTF-8: {error}") from error
    if not done:
        raise NotAnAnswerError(f"the stream breaks off: no {DONE} at its end")


def fold(chunks: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """The chunks of one stream as one response. Raises NotAnAnswerError where a chunk is none."""
    whole: dict[str, Any] = {}
    choices: dict[int, _Choice] = {}
    for chunk in chunks:
        for key, value in chunk.items():
            if value is not None and key != "choices" and (key == "usage" or key not in whole):
                whole[key] = value
        for part in _objects(chunk.get("choices"), "choices"):
            index = index_of(part)
            if index not in choices:
                choices[index] = _Choice(index)
            choices[index].add(part)
    whole["choices"] = [choices[index].value() for index in sorted(choices)]
    counted = [each.get("token_ids") for each in whole["choices"]]
    if "usage" not in whole and counted and all(isinstance(each, list) for each in counted):
        whole["usage"] = {"completion_tokens": sum(map(len, counted))}
    return whole


class _Choice:
    """One choice as it grows. Text is kept in pieces: joining at each chunk costs the square of the length."""

    def __init__(self, index: int) -> None:
        self._last: dict[str, Any] = {"index": index}
        self._lists: dict[str, list[Any]] = {}
        self._logprobs: dict[str, Any] = {}
        self._text: list[str] | None = None
        self._message: _Message | None = None

    def add(self, part: dict[str, Any]) -> None:
        if "delta" in part:
            self._message = self._message or _Message()
            self._message.add(_object(part["delta"], "delta"))
        elif "text" in part:
            self._text = [] if self._text is None else self._text
            self._text.append(_text(part["text"], "text"))
        else:
            raise NotAnAnswerError("a choice of a chunk holds neither `text` nor `delta`")
        for key, value in _object(part.get("logprobs"), "logprobs").items():
            _extend(self._logprobs, key, value)
        _extend(self._lists, "token_ids", part.get("token_ids"))
        for key, value in part.items():
            if value is not None and key not in {"delta", "text", "logprobs", "token_ids", "index"}:
                self._last[key] = value

    def value(self) -> dict[str, Any]:
        if self._text is not None and self._message is not None:
            raise NotAnAnswerError("a choice is streamed as `text` and as `delta`")
        said = (
            {"text": "".join(self._text)} if self._text is not None else {"message": self._spoken()}
        )
        return {**self._last, **self._lists, **said, "logprobs": self._logprobs or None}

    def _spoken(self) -> dict[str, Any]:
        return self._message.value() if self._message else {}


class _Message:
    """A chat's message as it grows."""

    def __init__(self) -> None:
        self._role: Any = None
        self._pieces: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, list[str]]] = {}
        self._function: dict[str, list[str]] = {}

    def add(self, delta: dict[str, Any]) -> None:
        if delta.get("audio") is not None:
            raise NotAnAnswerError("audio in a stream cannot be compared")
        self._role = self._role or delta.get("role")
        _append(self._pieces, delta, _SPOKEN)
        _append(self._function, _object(delta.get("function_call"), "function_call"), _CALLED)
        for call in _objects(delta.get("tool_calls"), "tool_calls"):
            if "index" not in call:
                raise NotAnAnswerError("a streamed tool call has no `index`")
            function = _object(call.get("function"), "function")
            _append(self._calls.setdefault(index_of(call), {}), function, _CALLED)

    def value(self) -> dict[str, Any]:
        calls = [{"function": _joined(self._calls[index])} for index in sorted(self._calls)]
        function = _joined(self._function)
        return {
            **_joined(self._pieces),
            **({"role": self._role} if self._role else {}),
            **({"tool_calls": calls} if calls else {}),
            **({"function_call": function} if function else {}),
        }


def _append(pieces: dict[str, list[str]], part: dict[str, Any], keys: tuple[str, ...]) -> None:
    for key in keys:
        if part.get(key) is not None:
            pieces.setdefault(key, []).append(_text(part[key], key))


def _joined(pieces: dict[str, list[str]]) -> dict[str, str]:
    return {key: "".join(parts) for key, parts in pieces.items()}


def _extend(lists: dict[str, Any], key: str, value: Any) -> None:
    """Lists grow, anything else is said once."""
    if isinstance(value, list):
        known = lists.setdefault(key, [])
        if not isinstance(known, list):
            raise NotAnAnswerError(f"`{key}` is a list in one chunk and none in another")
        known.extend(value)
    elif value is not None:
        if isinstance(lists.get(key), list):
            raise NotAnAnswerError(f"`{key}` is a list in one chunk and none in another")
        lists[key] = value


def _object(value: Any, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NotAnAnswerError(f"a chunk's `{name}` is not an object")
    return value


def _objects(value: Any, name: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise NotAnAnswerError(f"a chunk's `{name}` are not a list of objects")
    return value


def _text(value: Any, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise NotAnAnswerError(f"a chunk's `{name}` is not a text")
    return value
