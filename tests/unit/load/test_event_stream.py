# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.load.event_stream import StreamEvent, events, is_event_stream


def data(body: bytes) -> list[str]:
    return [event.data for event in events(body)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data: a\r\n\ndata: b\n\r\n", ["a", "b"]),
        (b"data:a\n\ndata:  b\n\n", ["a", " b"]),
        (b"data: a\ndata\ndata: b\n\n", ["a\n\nb"]),
        (b": ping\n\n: ping\ndata: a\n: ping\n\n", ["a"]),
        (b"id: 5\nretry: 3\nunknown: x\ndata: a: b\n\n", ["a: b"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data\n\ndata:\n\nevent: x\n\n", []),
        (b"data: a\n\ndata: cut", ["a"]),
        (b"data: a\n\ndata: cut\n", ["a"]),
        ("data: a\u2028b\x0b\x85c\n\n".encode(), ["a\u2028b\x0b\x85c"]),
        (b"", []),
    ],
)
def test_events_are_those_of_the_standard(body: bytes, expected: list[str]) -> None:
    assert data(body) == expected


def test_the_name_of_an_event_holds_for_one() -> None:
    assert list(events(b"event: error\ndata: a\n\ndata: b\n\n")) == [
        StreamEvent(name="error", data="a"),
        StreamEvent(name="message", data="b"),
    ]


def test_bytes_that_are_no_text_are_an_error() -> None:
    with pytest.raises(UnicodeDecodeError):
        data(b"data: \xff\n\n")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream ; charset=utf-8", True),
        ("application/json", False),
        ("text/event-stream2", False),
        ("", False),
    ],
)
def test_a_stream_is_known_by_its_type(header: str, expected: bool) -> None:
    assert is_event_stream(header) is expected
