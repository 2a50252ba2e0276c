# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

import pytest

from ci_doctor.load.answer_items import NotAnAnswerError
from ci_doctor.load.canonical import encode, is_blank, text_of
from tests.unit.load.streams import canonicalise

COMPLETION: dict[str, Any] = {
    "id": "cmpl-1",
    "object": "text_completion",
    "created": 1,
    "model": "tiny",
    "choices": [
        {
            "index": 0,
            "text": "hello",
            "finish_reason": "stop",
            "logprobs": {"token_logprobs": [-0.1]},
        }
    ],
    "usage": {
        "prompt_tokens": 3,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 0},
    },
    "system_fingerprint": "a",
}
CHAT: dict[str, Any] = {
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "call_1", "function": {"name": "f", "arguments": '{"a": 1}'}}
                ],
            },
        }
    ]
}


def changed(value: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps({**value, **changes}).encode()


def with_choice(**changes: Any) -> bytes:
    return changed(COMPLETION, choices=[{**COMPLETION["choices"][0], **changes}])


def with_message(**said: Any) -> bytes:
    return changed(CHAT, choices=[{"message": said}])


@pytest.mark.parametrize(
    "body",
    [
        changed(
            COMPLETION, id="cmpl-2", created=2, system_fingerprint="b", service_tier="x", metrics={}
        ),
        changed(COMPLETION, kv_transfer_params={"a": 1}, something_new=1),
        changed(
            COMPLETION, usage={**COMPLETION["usage"], "prompt_tokens_details": {"cached_tokens": 3}}
        ),
        changed(COMPLETION, model="tiny-2"),
        json.dumps(dict(reversed(COMPLETION.items())), indent=3).encode(),
    ],
)
def test_what_differs_from_call_to_call_by_design_is_not_compared(body: bytes) -> None:
    assert canonicalise(body).digest == canonicalise(changed(COMPLETION)).digest


@pytest.mark.parametrize(
    "body",
    [
        with_choice(text="hello "),
        with_choice(finish_reason="length"),
        with_choice(stop_reason=2),
        with_choice(matched_stop=2),
        with_choice(token_ids=[1]),
        with_choice(logprobs={"token_logprobs": [-0.10000001]}),
        with_choice(logprobs={"token_logprobs": [-0]}),
        with_choice(prompt_logprobs=[None]),
        changed(COMPLETION, prompt_logprobs=[None]),
        changed(COMPLETION, usage={"prompt_tokens": 3, "completion_tokens": 2}),
    ],
)
def test_what_the_model_said_and_its_numbers_are_compared_to_the_bit(body: bytes) -> None:
    assert canonicalise(body).digest != canonicalise(changed(COMPLETION)).digest


def test_zero_and_minus_zero_are_not_the_same_bits() -> None:
    assert (
        canonicalise(with_choice(logprobs={"token_logprobs": [0.0]})).digest
        != canonicalise(with_choice(logprobs={"token_logprobs": [-0.0]})).digest
    )


def test_choices_are_compared_by_index() -> None:
    choices = [{"index": index, "text": str(index)} for index in range(2)]
    forth, back = (
        canonicalise(changed(COMPLETION, choices=order)) for order in (choices, choices[::-1])
    )
    assert forth.digest == back.digest


def test_a_tool_calls_id_is_random_its_name_and_raw_arguments_are_not() -> None:
    def call(**function: str) -> str:
        value = json.loads(json.dumps(CHAT))
        call = value["choices"][0]["message"]["tool_calls"][0]
        call["id"] = "call_2"
        call["function"].update(function)
        return canonicalise(json.dumps(value).encode()).digest

    assert call() == canonicalise(changed(CHAT)).digest
    assert call(arguments='{"a":1}') != call()
    assert call(name="g") != call()


def test_what_was_asked_is_told_apart_from_what_was_said() -> None:
    answer = canonicalise(changed(COMPLETION))
    assert answer.prompt_facts == {"model": "tiny", "prompt_tokens": 3}
    assert answer.meta["id"] == "cmpl-1"
    assert answer.meta["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    in_a_choice = canonicalise(with_choice(prompt_token_ids=[1, 2, 3]))
    assert in_a_choice.prompt_facts["prompt_token_ids"] == [None, [1, 2, 3]]
    assert in_a_choice.digest == answer.digest


@pytest.mark.parametrize(
    ("body", "empty"),
    [
        (with_choice(text=""), True),
        (with_choice(text=None), True),
        (with_choice(text="", token_ids=[5]), False),
        (changed(COMPLETION), False),
        (changed(CHAT), False),
        (with_message(role="assistant", content=""), True),
        (with_message(reasoning_content="so"), False),
        (with_message(function_call={"name": "f", "arguments": ""}), False),
    ],
)
def test_an_answer_that_says_nothing_is_known_as_empty(body: bytes, empty: bool) -> None:
    assert canonicalise(body).empty is empty


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not JSON"),
        (b"<html>", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"1" * 5000, "not JSON"),
        (b"[]", "a JSON list instead of an object"),
        (b"{}", "no `choices`"),
        (b'{"choices": []}', "no `choices`"),
        (b'{"choices": [1]}', "Expected `object`, got `int`"),
        (b'{"choices": [{}]}', "neither `text` nor `message`"),
        (b'{"choices": [{"message": "hi"}]}', "Expected `object | null`, got `str`"),
        (b'{"choices": [{"message": {"tool_calls": 5}}]}', "Expected `array | null`, got `int`"),
        (b'{"choices": [{"message": {"tool_calls": [5]}}]}', "Expected `object`, got `int`"),
        (b'{"choices": [{"text": "", "index": "0"}]}', "Expected `int`, got `str`"),
        (b'{"error": "no", "choices": [{"text": "hi"}]}', "an error in a 200 response"),
        (b'{"choices": [{"text": "a", "logprobs": [NaN]}]}', "NaN is no JSON number"),
        (b'{"choices": [{"text": "a", "logprobs": [-Infinity]}]}', "-Infinity is no JSON number"),
        (
            b'{"choices": [{"text": "a", "logprobs": {"x": [1e999]}}]}',
            "cannot be written as JSON again",
        ),
        (b'{"choices": [{"text": "a", "finish_reason": "abort"}]}', "broke the answer off"),
        (b'{"choices": [{"text": "a", "text": "b"}]}', 'the key "text" stands twice'),
        (b'{"choices": [{"text": "\xff"}]}', "not JSON"),
        (b'{"choices": [{"text": "a", "index": true}]}', "Expected `int`, got `bool`"),
        (b'{"choices": [{"text": "a"}], "usage": 5}', "`usage` is not an object"),
        (b'{"choices": [{"text": "a"}], "usage": {"completion_tokens": "1"}}', "no count"),
        (b'{"choices": [{"text": "a"}], "usage": {"prompt_tokens": -1}}', "no count"),
        (b'{"choices": [{"text": "a"}], "usage": {"completion_tokens": 1.0}}', "no count"),
        (
            b'{"choices": [{"text": "a", "logprobs": {"x": ' + b"[" * 5000 + b"]" * 5000 + b"}}]}",
            "nested too deep",
        ),
    ],
)
def test_what_is_no_whole_answer_is_refused_with_the_reason(body: bytes, why: str) -> None:
    with pytest.raises(NotAnAnswerError, match=why):
        canonicalise(body)


def test_the_count_of_choices_must_be_what_was_asked_for() -> None:
    assert canonicalise(changed(COMPLETION), 1).digest
    with pytest.raises(NotAnAnswerError, match="1 choices in the answer, 2 were requested"):
        canonicalise(changed(COMPLETION), 2)


@pytest.mark.parametrize("text", ["", "\ud800"])
def test_an_empty_text_and_a_lone_surrogate_survive(text: str) -> None:
    answer = canonicalise(with_choice(text=text))
    assert json.loads(encode(answer.output))["choices"][0]["text"] == text


def test_the_text_for_people_holds_all_that_was_said_in_order() -> None:
    said = [{"message": {"reasoning": "hm", "content": "yes"}}, {"index": 1, "text": "no"}]
    assert text_of(canonicalise(changed(CHAT, choices=said)).output) == "hm\nyes\nno"
    called = canonicalise(changed(CHAT)).output
    assert text_of(called) == '{"arguments": "{\\"a\\": 1}", "name": "f"}'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            {"logprobs": {"token_logprobs": [-0.1234567]}},
            {"logprobs": {"token_logprobs": [-0.12345670163631439]}},
        ),
        ({"logprobs": {"token_logprobs": [-1]}}, {"logprobs": {"token_logprobs": [-1.0]}}),
        (
            {"prompt_logprobs": [None, {"5": {"logprob": -0.1}}]},
            {"prompt_logprobs": [None, {"5": {"logprob": -0.10000000149011612}}]},
        ),
        ({"logprobs": None}, {"logprobs": {"content": None, "refusal": []}}),
        ({"token_ids": []}, {}),
        ({"message": {"role": "assistant", "content": ""}}, {"message": {"content": None}}),
        (
            {"message": {"function_call": {"name": "f", "arguments": ""}}},
            {"message": {"function_call": {"name": "f"}}},
        ),
        ({"index": 0}, {}),
    ],
)
def test_what_two_servers_say_differently_and_mean_alike_is_one_answer(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    first, second = (
        canonicalise(changed({}, choices=[{"text": "x", **choice}])) for choice in (one, other)
    )
    assert first.digest == second.digest


@pytest.mark.parametrize(
    ("choices", "blank"),
    [
        ([{"text": " \n"}], True),
        ([{"text": " \n", "token_ids": [220, 198]}], True),
        ([{"text": ""}, {"text": ""}], True),
        ([{"text": "", "token_ids": [0, 0]}], True),
        ([{"text": " "}, {"text": "a"}], False),
        ([{"message": {"reasoning_content": "hm"}}], False),
        ([{"message": {"tool_calls": [{"name": "f", "arguments": None}]}}], False),
    ],
)
def test_an_answer_is_blank_if_people_read_no_word_in_it(
    choices: list[dict[str, Any]], blank: bool
) -> None:
    assert is_blank({"choices": choices}) is blank
