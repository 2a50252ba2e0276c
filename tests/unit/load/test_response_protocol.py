# SPDX-License-Identifier: Apache-2.0
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_doctor.load.answer_items import NotAnAnswerError, parts
from ci_doctor.load.canonical import Canonical, check_output, encode, text_of
from ci_doctor.load.requests import Request, read_answer

REQUEST = Request(id="r", path="/v1/responses", body={"input": "x"}, line=1)
ENTRY = {"token": "hi", "logprob": -0.5, "bytes": [104, 105], "top_logprobs": []}
THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "short"}],
    "content": [{"type": "reasoning_text", "text": "long"}],
    "encrypted_content": "zzz",
}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "call_1",
    "name": "weather",
    "arguments": '{"at": "Oslo"}',
    "status": "completed",
}


def message(*texts: str, **more: Any) -> dict[str, Any]:
    parts = [{"type": "output_text", "text": text, "annotations": [], **more} for text in texts]
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": parts}


def response(*items: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 5,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "tiny",
        "output": list(items),
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        **more,
    }


def read(value: Any) -> Canonical:
    canonical = read_answer(REQUEST, json.dumps(value).encode(), streamed=False)
    check_output(canonical.output)
    return canonical


def stream(events: Sequence[Any], *, done: bool = False) -> bytes:
    lines = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events]
    return "".join([*lines, "data: [DONE]\n\n" if done else ""]).encode()


def events_of(value: dict[str, Any], pieces: Sequence[str]) -> list[dict[str, Any]]:
    """The events of a response whose text comes in `pieces`."""
    started = {**value, "output": [], "status": "in_progress"}
    deltas = [
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": each}
        for each in pieces
    ]
    last = {"type": f"response.{value['status']}", "response": value}
    items = [
        {"type": "response.output_item.done", "output_index": at, "item": item}
        for at, item in enumerate(value["output"])
    ]
    return [{"type": "response.created", "response": started}, *deltas, *items, last]


def folded(body: bytes) -> Canonical:
    canonical = read_answer(REQUEST, body, streamed=True)
    check_output(canonical.output)
    return canonical


def test_each_part_of_an_answer_is_a_choice_in_its_place() -> None:
    canonical = read(response(THOUGHT, message("hi"), CALL))
    ending = {"finish_reason": "completed"}
    role = {"role": "assistant"}
    call = {"name": "weather", "arguments": '{"at": "Oslo"}'}
    assert canonical.output == {
        "choices": [
            {"index": 0, "message": {**role, "reasoning": "long"}, **ending},
            {"index": 1, "message": {**role, "reasoning_content": "short"}, **ending},
            {"index": 2, "message": {**role, "content": "hi"}, **ending},
            {"index": 3, "message": {**role, "tool_calls": [call]}, **ending},
        ],
        "completion_tokens": 2,
    }
    assert text_of(canonical.output).splitlines()[:3] == ["long", "short", "hi"]
    assert canonical.prompt_facts == {"model": "tiny", "prompt_tokens": 3}
    assert canonical.meta["id"] == "resp_1"


@pytest.mark.parametrize(
    "other",
    [
        response(message("hi"), id="resp_2", created_at=6),
        response({**message("hi"), "id": "msg_2", "status": "completed"}),
        response(message("hi", annotations=[{"type": "url"}])),
    ],
)
def test_what_differs_from_call_to_call_is_no_difference(other: dict[str, Any]) -> None:
    assert read(other).digest == read(response(message("hi"))).digest


def test_the_ids_of_calls_are_no_difference_and_their_arguments_are() -> None:
    ours = read(response(CALL)).digest
    assert read(response({**CALL, "id": "fc_2", "call_id": "call_2"})).digest == ours
    assert read(response({**CALL, "arguments": "{}"})).digest != ours


@pytest.mark.parametrize(
    "other",
    [
        response(message("ho")),
        response(message("hi"), message("hi")),
        response(message("h", "i")),
        response({"type": "message", "content": [{"type": "refusal", "refusal": "hi"}]}),
        response(message("hi"), status="incomplete"),
        response(message("hi"), usage={"output_tokens": 3}),
        response(THOUGHT, message("hi")),
        response({"type": "web_search_call", "id": "1", "action": {"query": "x"}}, message("hi")),
    ],
)
def test_other_parts_are_another_answer(other: dict[str, Any]) -> None:
    assert read(other).digest != read(response(message("hi"))).digest


def test_a_call_that_the_server_made_is_compared_without_its_id() -> None:
    def search(query: str, identity: str) -> str:
        item = {"type": "web_search_call", "id": identity, "action": {"query": query}}
        return read(response(item)).digest

    assert search("x", "ws_1") == search("x", "ws_2")
    assert search("x", "ws_1") != search("y", "ws_1")


def test_log_probabilities_are_numbers_and_no_words() -> None:
    one = read(response(message("hi", logprobs=[ENTRY])))
    other = read(response(message("hi", logprobs=[{**ENTRY, "logprob": -0.25}])))
    assert one.output["choices"][0]["logprobs"]["content"][0]["logprob"] == -0.5
    assert one.digest != other.digest
    assert parts(one.output).words == parts(other.output).words


def test_an_answer_that_the_token_limit_cut_is_one() -> None:
    cut = response(
        message("hi"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}
    )
    assert read(cut).output["choices"][0]["finish_reason"] == "max_output_tokens"


def test_an_answer_without_any_item_is_empty() -> None:
    assert read(response()).empty
    assert not read(response(message("hi"))).empty


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "a JSON list instead of an object"),
        ({"object": "response"}, "`output` is not a list"),
        (response(None), "`output` holds what is no object"),
        (response(status="in_progress"), "its `status` is in_progress"),
        (response(status="queued"), "its `status` is queued"),
        (response(status="failed", error={"message": "out of memory"}), "out of memory"),
        (response({"type": "message", "content": "hi"}), "`content` is not a list"),
        (
            response({"type": "message", "content": [{"type": "audio"}]}),
            "part of type audio cannot",
        ),
        (response(message(7)), "outside the API's schema"),  # type: ignore[arg-type]
        (response({**CALL, "name": None}), "does not name its tool"),
        (response({"type": "reasoning", "content": [{}]}), "a part without `text`"),
        (response(message("hi", logprobs=[{"logprob": "x"}])), "outside the API's schema"),
        (response(usage={"output_tokens": -1}), "`usage.completion_tokens` is no count"),
    ],
)
def test_what_is_no_whole_response_is_no_answer(value: Any, reason: str) -> None:
    with pytest.raises(NotAnAnswerError, match=reason):
        read(value)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize(
    "value",
    [
        response(message("hello")),
        response(THOUGHT, message("hello"), CALL),
        response(message("hello"), status="incomplete"),
    ],
)
def test_a_streamed_response_is_the_same_as_one_in_one_piece(
    value: dict[str, Any], *, done: bool
) -> None:
    body = stream(events_of(value, ["he", "", "llo"]), done=done)
    assert folded(body).output == read(value).output


def test_pieces_that_are_not_the_last_events_text_are_another_answer() -> None:
    value = response(message("hello"))
    canonical = folded(stream(events_of(value, ["hel", "p"])))
    assert canonical.digest != read(value).digest
    assert "help" in text_of(canonical.output)


def test_items_that_the_last_event_leaves_out_are_those_of_the_stream() -> None:
    value = response(message("hello"))
    *before, last = events_of(value, ["hello"])
    emptied = {**last, "response": {**last["response"], "output": []}}
    assert folded(stream([*before, emptied])).output == read(value).output


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], "breaks off"),
        (events_of(response(message("x")), ["x"])[:-1], "breaks off"),
        ([{"type": "response.completed"}], "holds no response"),
        ([{"type": "error", "message": "lost"}], "an error in the stream"),
        (events_of(response(status="failed", error={"code": "gone"}), []), "gone"),
        (events_of(response(status="cancelled"), []), "its `status` is cancelled"),
        (events_of(response(message("x")), ["x"]) * 2, "goes on after its last event"),
        ([{"type": "response.output_text.delta", "delta": 3}], "is no text"),
    ],
)
def test_a_stream_that_is_not_whole_is_no_answer(
    events: Sequence[dict[str, Any]], reason: str
) -> None:
    with pytest.raises(NotAnAnswerError, match=reason):
        folded(stream(events))


@settings(max_examples=60)
@given(st.data())
def test_a_stream_that_is_cut_anywhere_is_no_answer(data: st.DataObject) -> None:
    body = stream(events_of(response(message("hello", "you")), ["hello", "you"]))
    cut = data.draw(st.integers(0, len(body) - 2))
    with pytest.raises(NotAnAnswerError):
        folded(body[:cut])


KEYS = ["type", "output", "content", "text", "summary", "status", "logprobs", "name", "error"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=150)
@given(
    value=JSON,
    kind=st.sampled_from(["message", "reasoning", "function_call", "x"]),
    streamed=st.booleans(),
)
def test_no_response_whatever_crashes_the_reader(value: Any, kind: str, *, streamed: bool) -> None:
    item = {**value, "type": kind} if isinstance(value, dict) else value
    whole = response(item)
    body = stream(events_of(whole, [])) if streamed else json.dumps(whole).encode()
    try:
        canonical = read_answer(REQUEST, body, streamed=streamed)
    except NotAnAnswerError:
        return
    encode(canonical.output)
    check_output(canonical.output)
