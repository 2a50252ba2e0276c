# SPDX-License-Identifier: Apache-2.0
"""Pure. A text/event-stream as its events.

By the rules of the HTML standard (section 9.2.6, "Interpreting an event stream"), with one
departure: the standard replaces bytes that are not UTF-8. Here they are an error, since two broken
answers must not become equal.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

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
