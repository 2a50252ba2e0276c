# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_doctor.load.answer_items import NotAnAnswerError
from ci_doctor.load.canonical import Canonical
from ci_doctor.load.schema import StreamEvent, events, is_event_stream
from tests.support.growth import assert_linear
from tests.unit.load.streams import (
    HEAD,
    USAGE,
    canonicalise,
    canonicalise_stream,
    chats,
    completions,
    event,
    stream,
)


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
    assert [event.data for event in events(body)] == expected


def test_the_name_of_an_event_holds_for_one() -> None:
    assert list(events(b"event: error\ndata: a\n\ndata: b\n\n")) == [
        StreamEvent(name="error", data="a"),
        StreamEvent(name="message", data="b"),
    ]


def test_bytes_that_are_no_text_are_an_error() -> None:
    with pytest.raises(UnicodeDecodeError):
        list(events(b"data: \xff\n\n"))


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


Answer = tuple[dict[str, Any], list[dict[str, Any]]]
LAST: dict[str, Any] = {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}


def folded(*chunks: Any) -> Canonical:
    return canonicalise_stream(stream(chunks))


def delta(**part: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": part}]}


def of_choice(**fields: Any) -> bytes:
    """A stream of one chunk, with one choice of these fields."""
    return stream([{"choices": [fields]}])


@settings(max_examples=80, deadline=None)
@given(st.one_of(completions(), chats()), st.sampled_from(["\n", "\r\n", "\r"]))
def test_an_answer_is_the_same_streamed_and_in_one_piece(answer: Answer, end: str) -> None:
    whole, chunks = answer
    one = canonicalise(json.dumps(whole).encode(), len(whole["choices"]))
    other = canonicalise_stream(stream(chunks, end=end), len(whole["choices"]))
    assert one.output == other.output
    assert one.digest == other.digest
    assert (one.prompt_facts, one.empty, one.meta) == (other.prompt_facts, other.empty, other.meta)


@settings(max_examples=60, deadline=None)
@given(completions(), st.data())
def test_no_beginning_of_a_stream_is_an_answer(answer: Answer, data: st.DataObject) -> None:
    body = stream(answer[1])
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(NotAnAnswerError):
        canonicalise_stream(body[:cut])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "the stream breaks off"),
        (b"data: [DONE]\n\n", "no `choices`"),
        (stream([LAST], done=False), "the stream breaks off"),
        (stream([LAST]) + event(LAST), "goes on after"),
        (stream([LAST, {"error": {"message": "gone", "code": 500}}]), "an error in a 200 response"),
        (
            stream([LAST])[:-14] + b"event: error\ndata: gone\n\ndata: [DONE]\n\n",
            "an error in the stream: gone",
        ),
        (b"data: {\n\ndata: [DONE]\n\n", "not JSON"),
        (b"data: \xff\n\ndata: [DONE]\n\n", "not UTF-8"),
        (stream([[1]]), "a JSON list"),
        (stream([{"choices": [5]}]), "`choices.0.`: Expected `object`, got `int`"),
        (stream([{"choices": {}}]), "`choices`: Expected `array . null`, got `object`"),
        (stream([{"choices": [{}]}]), "neither `text` nor `delta`"),
        (of_choice(text=5), r"`choices\[0\].text`: Expected `str . null`, got `int`"),
        (of_choice(text="", index="0"), r"`choices\[0\].index`: Expected `int`, got `str`"),
        (of_choice(delta="x"), r"`choices\[0\].delta`: Expected `object . null`, got `str`"),
        (
            stream(
                [
                    {"choices": [{"text": "a", "logprobs": {"x": [1]}}]},
                    {"choices": [{"text": "b", "logprobs": {"x": 5}}]},
                ]
            ),
            "a list in",
        ),
        (
            stream([{"choices": [{"text": "x"}]}, {"choices": [{"delta": {}}]}]),
            "as `text` and as `delta`",
        ),
        (of_choice(text="x", logprobs=[1]), r"`choices\[0\].logprobs`: Expected"),
        (stream([delta(tool_calls=[{"function": {"name": "f"}}])]), "no `index`"),
        (
            stream([delta(tool_calls=[{"index": 0, "function": "f"}])]),
            r"tool_calls\[0\].function`: Expected `object . null`, got `str`",
        ),
        (stream([delta(content=["x"])]), r"delta.content`: Expected `str . null`, got `array`"),
        (stream([delta(audio={"data": "AA=="})]), "audio in a stream"),
        (of_choice(text="", finish_reason="abort"), "broke the answer off"),
        (
            stream(
                [{"choices": [{"text": "", "text2": [[]], "finish_reason": "stop"}], "usage": 5}]
            ),
            "`usage` is not an object",
        ),
        (b'data: {"choices": [], "choices": []}\n\ndata: [DONE]\n\n', "stands twice"),
        (
            b'data: {"choices": [{"text": "a", "logprobs": {"x": [NaN]}}]}\n\ndata: [DONE]\n\n',
            "NaN",
        ),
    ],
)
def test_what_is_no_whole_stream_is_refused_with_the_reason(body: bytes, why: str) -> None:
    with pytest.raises(NotAnAnswerError, match=why):
        canonicalise_stream(body)


def test_usage_is_the_last_that_was_told() -> None:
    answer = folded(
        {**LAST, "usage": {"completion_tokens": 1}}, {**HEAD, "choices": [], "usage": USAGE}
    )
    assert answer.output["completion_tokens"] == 4
    assert answer.prompt_facts["prompt_tokens"] == 3


def test_without_usage_the_tokens_are_counted_where_all_are_told() -> None:
    one = {"index": 0, "text": "a", "token_ids": [5, 6]}
    end = {**one, "finish_reason": "length"}
    other = {"index": 1, "text": "b", "finish_reason": "stop"}
    assert folded({"choices": [one]}, {"choices": [end]}).output["completion_tokens"] == 4
    assert "completion_tokens" not in folded({"choices": [end, other]}).output


def test_a_legacy_function_call_is_put_together() -> None:
    chunks = [
        delta(function_call={"name": "f", "arguments": "{"}),
        delta(function_call={"arguments": "}"}),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "function_call"}]},
    ]
    call = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
    choice = {"message": call, "finish_reason": "function_call"}
    assert folded(*chunks).digest == canonicalise(json.dumps({"choices": [choice]}).encode()).digest


def test_a_long_stream_costs_time_in_proportion() -> None:
    chunk = {"choices": [{"index": 0, "text": "x" * 1000, "token_ids": [1]}]}

    def fold(count: int) -> None:
        answer = folded(*[chunk] * count, LAST)
        assert len(answer.output["choices"][0]["text"]) == 1000 * count

    assert_linear(fold, 1_000)


def test_a_choice_that_goes_on_after_its_end_is_no_answer() -> None:
    end = {"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}]}
    assert folded(end, {"choices": [{"text": ""}]}).output["choices"][0]["text"] == "a"
    with pytest.raises(NotAnAnswerError, match="goes on after its `finish_reason`"):
        folded(end, {"choices": [{"text": "b"}]})
