# SPDX-License-Identifier: Apache-2.0
"""Labels, scores and ranks: what servers send for them is read, and nothing else."""

from typing import Any

import pytest

from ci_doctor.load.canonical import Canonical, check_output, text_of
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.protocols.classify import CLASSIFY
from ci_doctor.load.protocols.protocol import Protocol
from ci_doctor.load.protocols.rerank import RERANK
from ci_doctor.load.protocols.score import SCORE

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


def test_other_probabilities_below_one_label_leave_the_words_the_same() -> None:
    value = {"data": [{"index": 0, "label": "a", "probs": [0.75, 0.25]}]}
    other = {"data": [{"index": 0, "label": "a", "probs": [0.5, 0.5]}]}
    one, two = read(CLASSIFY, value), read(CLASSIFY, other)
    assert one.digest != two.digest
    assert one.words_digest == two.words_digest


def test_a_score_is_its_own_words() -> None:
    other = {"data": [{"index": 0, "score": 0.625}]}
    assert read(SCORE, SCORES).words_digest != read(SCORE, other).words_digest


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
    other = {**RANKS, "results": RANKS["results"][::-1]}  # type: ignore[index]
    assert read(RERANK, other).words_digest != canonical.words_digest


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
