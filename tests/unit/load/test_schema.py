# SPDX-License-Identifier: Apache-2.0
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_doctor.load.answer_items import NotAnAnswerError
from ci_doctor.load.canonical import encode
from ci_doctor.load.schema import parse_json, problem
from tests.support.cases import cases
from tests.unit.load.streams import (
    HEAD,
    USAGE,
    canonicalise,
    canonicalise_stream,
    chats,
    completions,
    stream,
)


def test_a_json_text_is_its_value() -> None:
    assert parse_json('{"a": [1, 2.5, null], "b": "\\ud800"}') == {
        "a": [1, 2.5, None],
        "b": "\ud800",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        (b"\xff", "decode"),
        ("NaN", "NaN is no JSON number"),
        ("[-Infinity]", "-Infinity is no JSON number"),
        ('{"a": 1, "b": 2, "a": 1}', 'the key "a" stands twice'),
        ('[{"x": {"b": 1, "b": 1, "b": 1}}]', 'the key "b" stands twice'),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_what_two_readers_may_take_in_different_ways_is_refused(
    text: str | bytes, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_json(text)


# Those that mean something, so that what is drawn is nearly an answer.
KEYS = st.sampled_from([
    "choices", "text", "message", "delta", "content", "finish_reason", "index", "logprobs", "tokens", "top_logprobs",
    "tool_calls", "function", "name", "arguments", "token_ids", "usage", "completion_tokens", "prompt_logprobs",
    "object", "error", "\ud800",
])  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
END = {"index": 0, "text": "", "finish_reason": "stop"}


def whole(**choice: Any) -> bytes:
    return json.dumps({**HEAD, "choices": [{"index": 0, **choice}]}).encode()


def is_answer(body: bytes, *, streamed: bool) -> bool:
    try:
        answer = canonicalise_stream(body) if streamed else canonicalise(body)
    except NotAnAnswerError:
        return False
    encode(answer.output)
    return True


def text_chunk(text: str, **more: Any) -> dict[str, Any]:
    return {**HEAD, "choices": [{"index": 0, "text": text, "finish_reason": None, **more}]}


def chat_chunk(delta: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    return {**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": None, **more}]}


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a value: the container and the key or index in it."""
    found: list[tuple[Any, Any]] = []
    pairs: Any = ()
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = list(enumerate(value))
    for key, inner in pairs:
        found += [(value, key), *places(inner)]
    return found


@settings(max_examples=80, deadline=None)
@given(st.one_of(completions(), chats()), JSON, st.booleans(), st.data())
def test_an_answer_with_anything_in_one_place_is_an_answer_or_refused(
    answer: tuple[Any, Any], value: Any, streamed: bool, data: st.DataObject
) -> None:
    damaged = json.loads(json.dumps(answer[streamed]))
    container, key = data.draw(st.sampled_from(places(damaged)))
    container[key] = value
    parts = damaged if streamed else [damaged]
    body = (
        stream([json.dumps(part) for part in parts]) if streamed else json.dumps(damaged).encode()
    )
    if is_answer(body, streamed=streamed):
        assert [problem(part) for part in parts] == [None] * len(parts)


@settings(max_examples=100, deadline=None)
@given(JSON, st.booleans())
def test_no_json_crashes_it(value: Any, streamed: bool) -> None:
    text = json.dumps(value)
    is_answer(stream([text]) if streamed else text.encode(), streamed=streamed)


@cases(
    "chunks",
    {
        "no finish reason": [text_chunk("a"), text_chunk("b")],
        "an empty finish reason": [text_chunk("a", finish_reason="")],
        "one of two choices unfinished": [
            {"choices": [{**END, "text": "a"}, {"index": 1, "text": "b"}]},
            {"choices": [], "usage": USAGE},
        ],
        "usage": [chat_chunk({"content": "a"}), {"choices": [], "usage": USAGE}],
        "an error": [text_chunk("a"), {"object": "error", "message": "dead"}],
        "an error at the end": [{"choices": [END]}, {"object": "error", "message": "dead"}],
        "a chunk of nothing": [{"choices": [END]}, {}],
        "no word": [text_chunk("a", finish_reason=5), {"choices": [END]}],
    },
)
def test_a_stream_that_was_cut_is_no_answer_though_it_says_done(
    chunks: Sequence[dict[str, Any]],
) -> None:
    assert not is_answer(stream(chunks), streamed=True)


@pytest.mark.parametrize(
    "choice",
    [
        {"text": ["a"]},
        {"text": 5},
        {"text": {"a": "b"}},
        {"text": True},
        {"text": "a", "finish_reason": None},
        {"text": "a", "finish_reason": ""},
        {"text": "a", "finish_reason": 5},
        {"text": "a", "token_ids": "12"},
        {"text": "a", "token_ids": [1.5]},
        {"text": "a", "logprobs": -0.5},
        {"text": "a", "logprobs": {"tokens": [1]}},
        {"text": "a", "logprobs": {"token_logprobs": ["-0.5"]}},
        {"text": "a", "stop_reason": {}},
        {"message": {"content": ["a"]}},
        {"message": {"content": {"text": "a"}}},
        {"message": {"content": "a", "role": 5}},
        {"message": {"reasoning_content": 5}},
        {"message": {"tool_calls": [{}]}},
        {"message": {"tool_calls": [{"function": {"name": ["f"]}}]}},
        {"message": {"tool_calls": [{"function": {"name": "f", "arguments": 5}}]}},
        {"message": {"tool_calls": {"function": {"name": "f"}}}},
        {"message": {"function_call": "f"}},
        {"message": None},
        {"delta": {"content": "a"}},
    ],
)
def test_what_is_outside_the_schema_is_no_answer(choice: dict[str, Any]) -> None:
    body = whole(**{"finish_reason": "stop", **choice})
    assert not is_answer(body, streamed=False)


TOKEN = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
LEGACY = {
    "text_offset": [0],
    "token_logprobs": [None],
    "tokens": ["a"],
    "top_logprobs": [None],
}


@cases(
    "choice",
    {
        "OpenAI": {"text": "a", "finish_reason": "stop"},
        "without a finish reason": {"text": "a"},
        "nothing said": {"text": "", "finish_reason": "stop"},
        "vLLM": {
            "text": "a",
            "logprobs": LEGACY,
            "finish_reason": "length",
            "stop_reason": None,
            "token_ids": None,
            "prompt_logprobs": [None, {"5": {"logprob": -1, "rank": 1, "decoded_token": "a"}}],
            "prompt_token_ids": [1],
        },
        "a stop token": {"text": "a", "finish_reason": "stop", "stop_reason": 2},
        "vLLM's own reason": {"text": "a", "finish_reason": "repetition"},
        "SGLang": {"text": "a", "logprobs": None, "finish_reason": "stop", "matched_stop": 128009},
        "TGI": {"text": "a", "finish_reason": "eos_token"},
        "llama.cpp": {
            "text": "a",
            "finish_reason": "length",
            "logprobs": {"content": [{**TOKEN, "id": 5}]},
        },
        "Ollama": {"message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"},
        "a tool call": {
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "annotations": None,
                "audio": None,
                "function_call": None,
                "reasoning_content": None,
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
                ],
            },
            "finish_reason": "tool_calls",
            "logprobs": {"content": [TOKEN], "refusal": None},
        },
        "TGI's tool call": {
            "message": {
                "role": "assistant",
                "tool_calls": [
                    {"id": 0, "type": "function", "function": {"name": "f", "arguments": {}}}
                ],
            },
            "finish_reason": "stop",
        },
        "only reasoning": {"message": {"content": "", "reasoning": "so"}},
    },
)
def test_what_servers_send_in_one_piece_is_an_answer(choice: dict[str, Any]) -> None:
    assert is_answer(whole(**choice), streamed=False)


@cases(
    "chunks",
    {
        "vLLM": [
            chat_chunk({"role": "assistant", "content": ""}),
            chat_chunk({"content": "a"}),
            chat_chunk({}, finish_reason="stop", stop_reason=None),
            {**HEAD, "choices": [], "usage": USAGE},
        ],
        "SGLang": [
            chat_chunk({"role": "assistant", "content": "", "tool_calls": None}),
            chat_chunk({"content": "a", "reasoning_content": None}, matched_stop=None),
            chat_chunk({"content": None}, finish_reason="stop", matched_stop=2),
            chat_chunk({"hidden_states": [0.5]}),
        ],
        "an empty finish reason until the last": [
            {**HEAD, "choices": [{"index": 0, "text": "a", "finish_reason": ""}]},
            {**HEAD, "choices": [{"index": 0, "text": "", "finish_reason": "eos_token"}]},
        ],
        "filters first": [{"choices": [], "prompt_filter_results": []}, {"choices": [END]}],
        "usage without choices": [{"choices": [END]}, {"usage": USAGE}],
        "a head chunk of a proxy": [
            text_chunk("a"),
            {"choices": [{"index": 0, "text": "b", "finish_reason": "length"}], "timings": {}},
        ],
        "a delta of null": [chat_chunk(None, finish_reason="stop")],
    },
)
def test_what_servers_stream_is_an_answer(chunks: Sequence[dict[str, Any]]) -> None:
    assert is_answer(stream(chunks), streamed=True)
