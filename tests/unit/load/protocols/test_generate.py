# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.protocols.generate import GENERATE

TOKENS = [
    {"id": 5, "text": "a", "logprob": -0.5, "special": False},
    {"id": 6, "text": "b", "logprob": -0.25, "special": False},
]
DETAILS = {"finish_reason": "length", "generated_tokens": 2, "tokens": TOKENS}
TGI = {"generated_text": "ab", "details": DETAILS}


def test_an_answer_of_text_generation_inference_has_text_tokens_and_numbers() -> None:
    (choice,) = GENERATE.read(TGI, {"inputs": "x"}).output["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("ab", "length")
    assert choice["token_ids"] == [5, 6]
    other = {**TGI, "details": {**DETAILS, "tokens": [TOKENS[0], {**TOKENS[1], "id": 7}]}}
    assert GENERATE.read(other, None).digest != GENERATE.read(TGI, None).digest


def test_a_log_probability_counts_as_a_number_and_not_as_a_word() -> None:
    changed = [TOKENS[0], {**TOKENS[1], "logprob": -0.26}]
    other = {**TGI, "details": {**DETAILS, "tokens": changed}}
    one, two = (GENERATE.read(value, None) for value in (TGI, other))
    assert one.digest != two.digest
    assert one.words_digest == two.words_digest


def test_sglang_says_why_it_stopped_in_its_meta_info() -> None:
    value = {
        "text": " a",
        "output_ids": [5],
        "meta_info": {
            "id": "x",
            "finish_reason": {"type": "length", "length": 1},
            "e2e_latency": 1,
        },
    }
    (choice,) = GENERATE.read(value, {"text": "x"}).output["choices"]
    assert choice == {"index": 0, "text": " a", "token_ids": [5], "finish_reason": "length"}
    slower = {**value, "meta_info": {**value["meta_info"], "e2e_latency": 2}}  # type: ignore[dict-item]
    assert GENERATE.read(slower, None).digest == GENERATE.read(value, None).digest


def test_a_list_of_texts_is_one_answer_in_its_order() -> None:
    several = GENERATE.read([{"generated_text": "a"}, {"generated_text": "b"}], {"inputs": "x"} | {"inputs": ["x", "y"]})  # fmt: skip
    assert [choice["text"] for choice in several.output["choices"]] == ["a", "b"]
    assert [each["text"] for each in GENERATE.read({"text": ["a"]}, None).output["choices"]] == [
        "a"
    ]


@pytest.mark.parametrize(
    ("value", "body", "said"),
    [
        ({}, None, "neither"),
        ("a", None, "a JSON str"),
        ([], None, "no `choices`"),
        ({"generated_text": "a"}, {"inputs": ["x", "y"]}, "1 choices"),
        ({"generated_text": "a", "details": []}, None, "not an object"),
        ({"generated_text": "a", "details": {"tokens": [1]}}, None, "not an object"),
        ({"text": "a", "meta_info": {"finish_reason": {"type": "abort"}}}, None, "broke"),
    ],
)
def test_what_is_no_whole_answer_is_refused(value: Any, body: Any, said: str) -> None:
    with pytest.raises(NotAnAnswerError, match=said):
        GENERATE.read(value, body)
