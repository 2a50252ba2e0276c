# SPDX-License-Identifier: Apache-2.0
"""Pure. A streamed answer of the Responses API, folded into its response object.

The last event (`response.completed` or `response.incomplete`) holds the whole object. What came in
pieces before must be the same text; if it is not, it becomes a part of the answer of its own, so
that such a stream is never equal to a sound one. `data: [DONE]` may follow: some servers send it.
"""

from typing import Any

from ci_doctor.load.canonical import parse_object
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.event_stream import StreamEvent, events

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
    texts = []
    for item in _objects(response.get("output")):
        for part in _objects(item.get("content")):
            is_text = part.get("type") == "output_text" and item.get("type") == "message"
            if is_text and isinstance(part.get("text"), str):
                texts.append(part["text"])
    return "".join(texts)


def _objects(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [each for each in value if isinstance(each, dict)]
