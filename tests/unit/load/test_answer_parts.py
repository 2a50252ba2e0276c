# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

import pytest

from ci_doctor.load.answer_parts import AnswerParts, parts
from ci_doctor.load.choice_answers import canonicalise
from ci_doctor.load.protocols.table import BY_NAME

LEGACY = {
    "index": 0,
    "text": "ab",
    "finish_reason": "stop",
    "token_ids": [7, 8],
    "logprobs": {
        "tokens": ["a", "b"],
        "token_logprobs": [None, -0.5],
        "top_logprobs": [None, {"b": -0.5, "c": -1.5}],
        "text_offset": [0, 1],
    },
}
CHAT = {
    "index": 0,
    "finish_reason": "stop",
    "message": {"role": "assistant", "content": "é"},
    "logprobs": {
        "content": [
            {
                "token": "\ufffd",
                "logprob": -0.25,
                "bytes": [195],
                "top_logprobs": [
                    {"token": "\ufffd", "logprob": -0.25, "bytes": [195]},
                    {"token": "\ufffd", "logprob": -2.5, "bytes": [196]},
                ],
            }
        ]
    },
}


def of(*choices: dict[str, Any], **more: Any) -> AnswerParts:
    value = {"choices": list(choices), "usage": {"completion_tokens": 2}, **more}
    return parts(canonicalise(json.dumps(value).encode()).output)


def changed(choice: dict[str, Any], **logprobs: Any) -> dict[str, Any]:
    return {**choice, "logprobs": {**choice["logprobs"], **logprobs}}


def test_a_completion_has_words_tokens_and_numbers() -> None:
    divided = of(LEGACY)
    assert divided.words == {"choices": [{"index": 0, "text": "ab", "finish_reason": "stop"}]}
    assert divided.tokens == [2, [[[7, 8], ["a", "b"], []]]]
    assert divided.numbers == (-0.5,)
    assert divided.alternatives == ({}, {"b": -0.5, "c": -1.5})
    assert not divided.wordless


def test_tokens_of_a_chat_that_share_one_text_are_told_apart_by_their_bytes() -> None:
    divided = of(CHAT)
    assert divided.numbers == (-0.25,)
    assert divided.alternatives == ({"[195]": -0.25, "[196]": -2.5},)
    assert divided.tokens[1] == [[None, None, [["\ufffd", [195]]]]]


def test_other_numbers_leave_words_and_tokens_as_they_are() -> None:
    ours, other = of(LEGACY), of(changed(LEGACY, token_logprobs=[None, -0.75]))
    assert (ours.words, ours.tokens) == (other.words, other.tokens)
    assert other.numbers == (-0.75,)


def test_other_tokens_leave_the_words_as_they_are() -> None:
    ours, other = of(LEGACY), of({**LEGACY, "token_ids": [9, 8]})
    assert ours.words == other.words
    assert ours.tokens != other.tokens
    assert of(LEGACY, usage={"completion_tokens": 3}).tokens != ours.tokens


@pytest.mark.parametrize(
    "other",
    [
        {**LEGACY, "text": "ac"},
        {**LEGACY, "finish_reason": "length"},
        {**LEGACY, "stop_reason": 3},
    ],
)
def test_another_text_or_ending_is_another_word(other: dict[str, Any]) -> None:
    assert of(other).words != of(LEGACY).words


def test_the_numbers_of_a_prompt_are_alternatives() -> None:
    listed = [None, {"5": {"logprob": -1.5, "rank": 2}, "6": {"logprob": -0.5, "rank": 1}}]
    assert of(LEGACY, prompt_logprobs=listed).alternatives[2:] == ({}, {"5": -1.5, "6": -0.5})


@pytest.mark.parametrize(
    ("name", "value", "wordless"),
    [
        ("embeddings", {"data": [{"embedding": [0.5, -1]}]}, True),
        ("score", {"scores": [[0.5, -1]]}, True),
        ("classify", {"data": [{"label": "a", "probs": [0.5, -1]}]}, False),
    ],
)
def test_items_have_numbers(name: str, value: Any, *, wordless: bool) -> None:
    divided = parts(BY_NAME[name].read(value, None).output)
    assert divided.numbers == (0.5, -1.0)
    assert divided.words["items"][0]["count"] == 2
    assert divided.wordless is wordless


def test_a_ranking_has_its_order_for_words() -> None:
    def ranked(*places: int, score: float = 0.5) -> AnswerParts:
        results = [{"index": place, "relevance_score": score} for place in places]
        return parts(BY_NAME["rerank"].read({"results": results}, None).output)

    assert ranked(0, 1).words == ranked(0, 1, score=0.25).words
    assert ranked(0, 1).words != ranked(1, 0).words


def test_an_answer_of_an_earlier_version_without_any_of_them_has_words_alone() -> None:
    divided = parts({"choices": [{"index": 0, "text": "a"}]})
    assert divided.numbers == ()
    assert divided.alternatives == ()
