# SPDX-License-Identifier: Apache-2.0
"""Pure. `/v1/responses`: OpenAI's Responses API, in one piece or as events; vLLM serves it, too.

An answer is a list of items (`output`): messages of parts, reasoning, calls of tools. Each part of
text and each call becomes a choice of the canonical form, in the order of the answer, so that
everything that compares and shows choices serves it, too. `finish_reason` is `completed`, or the
reason why the answer is incomplete.

Of a streamed answer the last event (`response.completed` or `response.incomplete`) holds the whole object. What came in
pieces before must be the same text; if it is not, it becomes a part of the answer of its own, so
that such a stream is never equal to a sound one. `data: [DONE]` may follow: some servers send it.
"""

from collections.abc import Iterator
from typing import Any

from ci_doctor.load.answer_items import NotAnAnswerError
from ci_doctor.load.canonical import (
    Canonical,
    Protocol,
    RequestBody,
    as_object,
    canonicalise_value,
    encode,
    parse_object,
)
from ci_doctor.load.streamed import StreamEvent, events

# The key under which a folded response holds a text that its last event does not have.
STREAMED_TEXT = "ci_doctor_streamed_text"
_DONE = "[DONE]"
_LAST = (
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
)


def folded_response(body: bytes) -> dict[str, Any]:
    """The response object of a whole stream.

    Raises NotAnAnswerError if the stream holds an error, breaks off before its last event, or goes
    on after it.
    """
    growing = _GrowingResponse()
    try:
        for event in events(body):
            growing.add(event)
    except UnicodeDecodeError as error:
        raise NotAnAnswerError(f"not UTF-8: {error}") from error
    return growing.value()


class _GrowingResponse:
    """A response as its events come in."""

    def __init__(self) -> None:
        self._response: dict[str, Any] | None = None
        self._pieces: list[str] = []
        self._items: dict[int, Any] = {}

    def add(self, event: StreamEvent) -> None:
        if event.data.strip() == _DONE:
            return
        if event.name == "error":
            raise NotAnAnswerError(f"an error in the stream: {event.data[:200]}")
        if self._response is not None:
            raise NotAnAnswerError("the stream goes on after its last event")
        value = parse_object(event.data)
        kind = value.get("type", event.name)
        if kind == "error":
            raise NotAnAnswerError(f"an error in the stream: {event.data[:200]}")
        if kind in _LAST:
            self._response = _response_of(value)
        elif kind == "response.output_text.delta":
            self._pieces.append(_text(value))
        elif kind == "response.output_item.done":
            at = value.get("output_index", len(self._items))
            self._items[at] = value.get("item")

    def value(self) -> dict[str, Any]:
        if self._response is None:
            raise NotAnAnswerError("the stream breaks off: no `response.completed` at its end")
        response = dict(self._response)
        # Some servers leave the items out of the last event.
        if not response.get("output") and self._items:
            response["output"] = [self._items[at] for at in sorted(self._items)]
        streamed = "".join(self._pieces)
        if streamed and streamed != _whole_text(response):
            response[STREAMED_TEXT] = streamed
        return response


def _response_of(value: dict[str, Any]) -> dict[str, Any]:
    response = value.get("response")
    if not isinstance(response, dict):
        raise NotAnAnswerError("the last event of the stream holds no response")
    if response.get("error"):
        shown = str(response["error"])[:200]
        raise NotAnAnswerError(f"an error in the stream: {shown}")
    return response


def _text(value: dict[str, Any]) -> str:
    delta = value.get("delta")
    if not isinstance(delta, str):
        raise NotAnAnswerError("a piece of text in the stream is no text")
    return delta


def _whole_text(response: dict[str, Any]) -> str:
    """The text of all messages of a response; parts of any other shape count as none."""
    return "".join(
        part["text"]
        for item in _objects(response.get("output"))
        if item.get("type") == "message"
        for part in _objects(item.get("content"))
        if part.get("type") == "output_text" and isinstance(part.get("text"), str)
    )


def _objects(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [each for each in value if isinstance(each, dict)]


# Of a call of a tool that the server made itself: what differs from call to call by design.
_NOT_COMPARED = frozenset({"id", "call_id", "status", "container_id"})
_TEXTS = ("output_text", "text", None)
_COUNTS = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}

Choice = dict[str, Any]
Part = dict[str, Any]


def read(value: Any, _body: RequestBody) -> Canonical:
    """The answer of a response object."""
    response = as_object(value)
    ending = _ending(response)
    choices = [choice for item in _parts(response, "output") for choice in _choices(item)]
    streamed = response.get(STREAMED_TEXT)
    if streamed is not None:
        choices.append({"text": streamed})
    if not choices:
        # An answer without any item is an answer, and counts as empty.
        choices.append({"message": {}})
    for index, choice in enumerate(choices):
        choice |= {"index": index, **ending}
    return canonicalise_value({**response, "choices": choices, "usage": _usage(response)})


def _ending(response: Part) -> Part:
    """Why the answer ended, as the part of a choice. Raises NotAnAnswerError if it has not."""
    status = response.get("status")
    if status is None:
        return {}
    if status == "completed":
        return {"finish_reason": status}
    if status == "incomplete":
        # The token limit or a filter: whole, as with the finish reasons "length" and its like.
        details = response.get("incomplete_details") or {}
        reason = details.get("reason") if isinstance(details, dict) else None
        return {"finish_reason": reason or status}
    raise NotAnAnswerError(f"the answer is not finished: its `status` is {str(status)[:40]}")


def _parts(of: Part, key: str) -> list[Part]:
    """The list of objects at `key`; none if it is absent or null. Raises NotAnAnswerError."""
    values = of.get(key)
    if values is None and key != "output":
        return []
    if not isinstance(values, list):
        raise NotAnAnswerError(f"outside the API's schema: `{key}` is not a list")
    for part in values:
        if not isinstance(part, dict):
            raise NotAnAnswerError(f"outside the API's schema: `{key}` holds what is no object")
    return values


def _choices(item: Part) -> Iterator[Choice]:
    """The choices of one item: one for each part of a message, one for anything else."""
    kind = item.get("type")
    if kind == "message":
        for part in _parts(item, "content"):
            yield _text_choice(part)
    elif kind == "reasoning":
        yield {"message": {"reasoning": _joined(item, "content")}}
        if item.get("summary"):
            yield {"message": {"reasoning_content": _joined(item, "summary")}}
    elif kind in {"function_call", "custom_tool_call"}:
        call = {key: item.get(key) for key in ("name", "arguments", "input")}
        yield {"message": {"tool_calls": [call]}}
    else:
        rest = {key: value for key, value in item.items() if key not in _NOT_COMPARED}
        call = {"name": str(kind), "arguments": encode(rest).decode("ascii")}
        yield {"message": {"tool_calls": [call]}}


def _text_choice(part: Part) -> Choice:
    kind = part.get("type")
    if kind == "refusal":
        return {"message": {"refusal": part.get("refusal")}}
    if kind not in _TEXTS:
        # Audio and whatever comes later must not be left out without a word.
        raise NotAnAnswerError(f"a part of type {str(kind)[:40]} cannot be compared")
    choice: Choice = {"message": {"content": part.get("text")}}
    if part.get("logprobs"):
        # Entries of the same shape as a chat's.
        choice["logprobs"] = {"content": part["logprobs"]}
    return choice


def _joined(item: Part, key: str) -> str:
    texts = []
    for part in _parts(item, key):
        text = part.get("text")
        if not isinstance(text, str):
            raise NotAnAnswerError(f"outside the API's schema: `{key}` holds a part without `text`")
        texts.append(text)
    return "\n".join(texts)


def _usage(response: Part) -> Any:
    """The usage with the names that the other protocols give its counts."""
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return usage
    return {_COUNTS.get(key, key): value for key, value in usage.items()}


def _recognises(value: Any) -> bool:
    return isinstance(value, dict) and value.get("object") == "response"


RESPONSES = Protocol(
    name="responses",
    paths=("/responses",),
    read=read,
    recognises=_recognises,
    fold=folded_response,
    sampled=True,
)
