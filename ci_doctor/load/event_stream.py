# SPDX-License-Identifier: Apache-2.0
"""A text/event-stream as its events, by the rules of the HTML standard (section 9.2.6, "Interpreting an event stream"). Pure.

One departure: the standard replaces bytes that are not UTF-8; here they are an error, since two broken answers must not
become equal.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

CONTENT_TYPE = "text/event-stream"
# Not splitlines(): U+2028 and its kin end no line here.
_LINE_END = re.compile(r"\r\n|\n|\r")


class StreamEvent(Struct, frozen=True, kw_only=True):
    """`name` is "message" where the stream gives none; `data` has no line end at its end."""

    name: str
    data: str


def is_event_stream(content_type: str) -> bool:
    """Whether a Content-Type header names an event stream, whatever its parameters."""
    return content_type.partition(";")[0].strip().lower() == CONTENT_TYPE


def events(body: bytes) -> Iterator[StreamEvent]:
    """The events of a whole stream in order. One that no blank line ends is none: the stream broke off in it.

    Comments, `id`, `retry` and unknown fields say nothing about an answer and are left out. Raises ValueError where
    the body is not UTF-8; lone surrogates are let through, as the JSON reader does.
    """
    text = body.decode("utf-8", "surrogatepass").removeprefix("\ufeff")
    *lines, _unfinished = _LINE_END.split(text)
    name, data = "", list[str]()
    for line in lines:
        if not line:
            if data and (joined := "\n".join(data)):
                yield StreamEvent(name=name or "message", data=joined)
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ")
