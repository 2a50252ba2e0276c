# SPDX-License-Identifier: Apache-2.0
"""Labels, scores and ranks: what servers send for them is read, and nothing else."""

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.load.answer_items import (
    AnswerParts,
    NotAnAnswerError,
    as_float32,
    comparable,
    compared_choice,
    nearest,
    parts,
    ulp_distance,
)
from ci_doctor.load.canonical import Canonical, Protocol, check_output, text_of
from ci_doctor.load.protocols import CLASSIFY, EMBEDDINGS, RERANK, SCORE
from tests.unit.load.streams import canonicalise

LABELS = {
    "id": "classify-1",
    "object": "list",
    "created": 5,
    "model": "intent",
    "data": [
        {"index": 0, "label": "refund", "probs": [0.75, 0.25], "num_classes": 2},
        {"index": 1, "label": "other", "probs": [0.125, 0.875], "num_classes": 2},
    ],
    "usage": {"prompt_tokens": 9, "total_tokens": 9},
}
SCORES = {
    "id": "score-1",
    "object": "list",
    "data": [{"index": 0, "object": "score", "score": 0.5}],
    "usage": {},
}
RANKS = {
    "id": "rerank-1",
    "model": "ranker",
    "results": [
        {"index": 2, "document": {"text": "two"}, "relevance_score": 0.9},
        {"index": 0, "document": {"text": "nil"}, "relevance_score": 0.1},
    ],
    "usage": {"total_tokens": 12},
}


def read(protocol: Protocol, value: Any, body: dict[str, Any] | None = None) -> Canonical:
    canonical = protocol.read(value, body)
    check_output(canonical.output)
    return canonical


def test_a_label_and_its_probabilities_are_the_answer() -> None:
    canonical = read(CLASSIFY, LABELS, {"input": ["a", "b"]})
    assert canonical.output == {
        "kind": "label",
        "items": [
            {"index": 0, "label": "refund", "numbers": [0.75, 0.25]},
            {"index": 1, "label": "other", "numbers": [0.125, 0.875]},
        ],
    }
    assert text_of(canonical.output) == "refund: 0.75 0.25\nother: 0.125 0.875"
    assert canonical.meta["id"] == "classify-1"


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        (SCORES, [[0.5]]),
        ({"scores": [[0.25, 0.75], [1, 0]], "object": "scoring"}, [[0.25, 0.75], [1.0, 0.0]]),
        ({"scores": [0.25]}, [[0.25]]),
    ],
)
def test_scores_are_read_in_the_forms_of_servers(value: Any, numbers: list[list[float]]) -> None:
    assert [item["numbers"] for item in read(SCORE, value).output["items"]] == numbers


def test_the_order_of_ranked_documents_is_the_answer() -> None:
    canonical = read(RERANK, RANKS, {"documents": ["nil", "one", "two"], "top_n": 2})
    assert [item["index"] for item in canonical.output["items"]] == [2, 0]

    def ranked(*places: int, score: float = 0.5) -> AnswerParts:
        results = [{"index": place, "relevance_score": score} for place in places]
        return parts(read(RERANK, {"results": results}).output)

    assert ranked(0, 1).words == ranked(0, 1, score=0.25).words
    assert ranked(0, 1).words != ranked(1, 0).words


@pytest.mark.parametrize(
    "value",
    [
        [{"score": 0.5, "document": "a", "index": 0, "meta_info": {"e2e_latency": 0.1}}],
        [{"index": 0, "score": 0.5, "text": "a"}],
        {"results": [{"index": 0, "relevance_score": 0.5, "document": {"text": "a"}}]},
        {"results": [{"index": 0, "relevance_score": 0.5, "document": "a"}]},
    ],
)
def test_the_rankings_of_all_servers_are_the_same_answer(value: Any) -> None:
    assert read(RERANK, value).output == {
        "kind": "rank",
        "items": [{"index": 0, "document": "a", "numbers": [0.5]}],
    }


@pytest.mark.parametrize(
    ("protocol", "value", "body", "reason"),
    [
        (CLASSIFY, {"data": []}, {}, "no `data`"),
        (CLASSIFY, {"data": [{"label": 3, "probs": [1]}]}, {}, "label` is no text"),
        (CLASSIFY, {"data": [{"label": "a"}]}, {}, "is not a list of numbers"),
        (CLASSIFY, {"data": [{"label": "a", "probs": []}]}, {}, "holds no number"),
        (CLASSIFY, {"data": [{"label": "a", "probs": [None]}]}, {}, "null"),
        (CLASSIFY, LABELS, {"input": "one"}, "2 results in the answer, 1 were requested"),
        (SCORE, {}, {}, "no `data`"),
        (SCORE, {"data": [{"index": 0}]}, {}, "null"),
        (SCORE, {"scores": [[]]}, {}, "is not a list|no number"),
        (SCORE, SCORES, {"text_1": "q", "text_2": ["a", "b"]}, "1 results in the answer, 2 were"),
        (RERANK, {"results": []}, {}, "no `results`"),
        (RERANK, [], {}, "no `results`"),
        (RERANK, {"results": [{"relevance_score": 1}]}, {}, "does not name its document"),
        (RERANK, {"results": [{"index": 0}]}, {}, "null"),
        (RERANK, {"results": [RANKS["results"][0]] * 2}, {}, "stands twice"),  # type: ignore[index]
        (RERANK, RANKS, {"documents": ["a", "b", "c"]}, "2 results in the answer, 3 were"),
        (RERANK, RANKS, {"documents": ["a", "b", "c"], "top_n": 1}, "2 results in the answer, 1"),
    ],
)
def test_what_is_not_whole_is_no_answer(
    protocol: Protocol, value: Any, body: dict[str, Any], reason: str
) -> None:
    with pytest.raises(NotAnAnswerError, match=reason):
        read(protocol, value, body)


@pytest.mark.parametrize(
    "body",
    [
        {"documents": ["a", "b"]},
        {"documents": ["a", "b"], "top_n": 0},
        {"documents": ["a", "b"], "top_n": 9},
        {"documents": {"content": []}},
        {"texts": ["a", "b"]},
    ],
)
def test_a_ranking_holds_every_document_or_the_wanted_ones(body: dict[str, Any]) -> None:
    assert len(read(RERANK, RANKS, body).output["items"]) == 2


@pytest.mark.parametrize(
    "body",
    [
        None,
        {"text_1": "a", "text_2": "b"},
        {"queries": ["a"], "documents": ["b"]},
        {"query": [1, 2, 3], "items": ["b"]},
        {"text_1": "a", "text_2": {"content": []}},
    ],
)
def test_the_count_of_pairs_is_known_or_not_checked(body: dict[str, Any] | None) -> None:
    assert len(read(SCORE, SCORES, body).output["items"]) == 1


LEGACY: dict[str, Any] = {
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


def test_other_numbers_leave_words_and_tokens_and_other_tokens_the_words() -> None:
    ours = of(LEGACY)
    logprobs = {**LEGACY["logprobs"], "token_logprobs": [None, -0.75]}
    moved = of({**LEGACY, "logprobs": logprobs})
    assert (moved.words, moved.tokens, moved.numbers) == (ours.words, ours.tokens, (-0.75,))
    other = of({**LEGACY, "token_ids": [9, 8]})
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


def test_a_text_alone_has_neither_numbers_nor_alternatives() -> None:
    divided = parts({"choices": [{"index": 0, "text": "a"}]})
    assert (divided.numbers, divided.alternatives) == ((), ())


@pytest.mark.parametrize(
    ("protocol", "value", "wordless"),
    [
        (EMBEDDINGS, {"data": [{"embedding": [0.5, -1]}]}, True),
        (SCORE, {"scores": [[0.5, -1]]}, True),
        (CLASSIFY, {"data": [{"label": "a", "probs": [0.5, -1]}]}, False),
    ],
)
def test_items_have_numbers(protocol: Protocol, value: Any, *, wordless: bool) -> None:
    divided = parts(protocol.read(value, None).output)
    assert divided.numbers == (0.5, -1.0)
    assert divided.words["items"][0]["count"] == 2
    assert divided.wordless is wordless


LARGEST = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
SMALLEST = 2.0**-149


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(9, 17))
def test_a_float32_is_found_again_however_many_digits_it_was_printed_with(
    number: float, digits: int
) -> None:
    found = nearest([float(f"{number:.{digits}g}")])
    assert [each.hex() for each in found] == [number.hex()]


def test_what_is_beyond_the_range_stays_a_double_and_its_neighbours_are_rounded() -> None:
    assert nearest([1e300, 0.1, -1e39, math.inf]) == [1e300, 0.10000000149011612, -1e39, math.inf]
    assert nearest([]) == []


@pytest.mark.parametrize(
    ("a", "b", "steps"),
    [
        (1.0, 1.0, 0),
        (0.0, -0.0, 0),
        (1.0, 1.0 + 2**-23, 1),
        (1.0, 1.0 - 2**-24, 1),
        (1.0, 1.0 + 2**-40, 0),
        (-0.1, -0.10000001, 1),
        (-SMALLEST, SMALLEST, 2),
        (1.0, 2.0, 2**23),
        (LARGEST, math.inf, 1),
        (LARGEST, 1e300, 1),
        (-math.inf, math.inf, 2 * 0x7F800000),
    ],
)
def test_steps_are_counted_over_zero_and_to_infinity(a: float, b: float, steps: int) -> None:
    assert ulp_distance(a, b) == ulp_distance(b, a) == steps


@given(*[st.floats(width=32, allow_nan=False)] * 3)
def test_steps_add_up_along_the_line(a: float, b: float, c: float) -> None:
    low, middle, high = sorted((a, b, c))
    assert ulp_distance(low, high) == ulp_distance(low, middle) + ulp_distance(middle, high)


def test_nan_is_nowhere() -> None:
    with pytest.raises(ValueError, match="NaN"):
        ulp_distance(math.nan, 0.0)


TENTH = 0.10000000149011612


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"token_logprobs": [None, 0.1, -1]}, {"token_logprobs": [None, TENTH, -1.0]}),
        ({"tokens": ["a"], "text_offset": [0, 3]}, {"tokens": ["a"], "text_offset": [0, 3]}),
        (
            {"top_logprobs": [None, {"rank": -1, "a": 0.1}]},
            {"top_logprobs": [None, {"rank": -1.0, "a": TENTH}]},
        ),
        (
            {
                "content": [
                    {
                        "token": "a",
                        "logprob": -1,
                        "bytes": [97],
                        "top_logprobs": [{"token": "a", "logprob": 0.1}],
                    }
                ]
            },
            {
                "content": [
                    {
                        "token": "a",
                        "logprob": -1.0,
                        "bytes": [97],
                        "top_logprobs": [{"token": "a", "logprob": TENTH}],
                    }
                ]
            },
        ),
        (
            [None, {"12": {"logprob": 0.1, "rank": 1}}],
            [None, {"12": {"logprob": TENTH, "rank": 1}}],
        ),
        ({"token_logprobs": [10**400, True, "x"]}, {"token_logprobs": [10**400, True, "x"]}),
        ([0.1, 0.1], [TENTH, TENTH]),
        (0.1, TENTH),
        (-1e300, -1e300),
    ],
)
def test_log_probabilities_are_float32_and_other_numbers_are_left(
    value: Any, expected: Any
) -> None:
    before = json.dumps(value)
    assert json.dumps(as_float32(value)) == json.dumps(expected)
    assert json.dumps(value) == before


@pytest.mark.parametrize(
    "value", [None, {}, [], {"content": None}, {"content": [], "refusal": None}]
)
def test_what_tells_nothing_is_none(value: Any) -> None:
    assert comparable(value) is None


def test_a_gap_inside_a_list_is_told() -> None:
    assert comparable({"token_logprobs": [None], "top_logprobs": None}) == {
        "token_logprobs": [None]
    }


def with_message(**message: Any) -> dict[str, Any]:
    return {"index": 0, "message": message}


@pytest.mark.parametrize("kind", ["function", "custom"])
def test_what_a_call_gives_its_tool_is_compared(kind: str) -> None:
    keys = {"function": "arguments", "custom": "input"}

    def call(given: str) -> dict[str, Any]:
        tool = {"name": "f", keys[kind]: given}
        return compared_choice(with_message(tool_calls=[{"id": "x", "type": kind, kind: tool}]))

    assert call("one") != call("other")


def test_a_call_that_names_no_tool_is_no_answer() -> None:
    with pytest.raises(NotAnAnswerError, match="does not name its tool"):
        compared_choice(with_message(tool_calls=[{"function": {"arguments": "{}"}}]))
