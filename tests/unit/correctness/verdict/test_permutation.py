# SPDX-License-Identifier: Apache-2.0
import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.correctness.verdict import permutation
from ci_doctor.correctness.verdict.permutation import (
    PermutationCount,
    disputes,
    partition,
    permutation_test,
)

Outcomes = list[list[str | None]]


def run(requests: Outcomes, candidates: Sequence[int]) -> PermutationCount:
    mask = sum(1 << index for index in candidates)
    return permutation_test(
        Counter(partition(outcomes) for outcomes in requests), mask, len(requests[0])
    )


def brute_force(requests: Outcomes, candidates: Sequence[int]) -> PermutationCount:
    """The definition: every labeling, every request, by sets."""

    def disputed(labeling: Sequence[int]) -> int:
        number = 0
        for outcomes in requests:
            named = [
                f"missing {index}" if each is None else each for index, each in enumerate(outcomes)
            ]
            inside = {named[index] for index in labeling}
            outside = {each for index, each in enumerate(named) if index not in labeling}
            number += not inside & outside
        return number

    labelings = list(combinations(range(len(requests[0])), len(candidates)))
    extreme = sum(disputed(labeling) >= disputed(tuple(candidates)) for labeling in labelings)
    return PermutationCount(extreme=extreme, labelings=len(labelings))


@st.composite
def experiments(draw: st.DrawFn) -> tuple[Outcomes, list[int]]:
    starts = draw(st.integers(2, 7))
    answer = st.sampled_from(["x", "y", "z", None])
    requests = draw(
        st.lists(st.lists(answer, min_size=starts, max_size=starts), min_size=1, max_size=5)
    )
    candidates = draw(
        st.lists(st.integers(0, starts - 1), min_size=1, max_size=starts - 1, unique=True)
    )
    return requests, candidates


@given(experiments())
def test_it_counts_what_its_definition_counts(experiment: tuple[Outcomes, list[int]]) -> None:
    found, defined = run(*experiment), brute_force(*experiment)
    assert (found.extreme, found.labelings) == (defined.extreme, defined.labelings)


@given(experiments(), st.integers(0, 3))
def test_it_is_exact_at_every_level(experiment: tuple[Outcomes, list[int]], level: int) -> None:
    """Over all labelings of the same evidence, p <= alpha holds for a share of at most alpha."""
    requests, candidates = experiment
    alpha = (0.02, 0.05, 0.1, 0.3)[level]
    labelings = list(combinations(range(len(requests[0])), len(candidates)))
    below = sum(run(requests, labeling).p <= alpha for labeling in labelings)
    assert below <= alpha * len(labelings)


def test_arms_that_are_apart_reach_the_smallest_p() -> None:
    assert run([list("aaaaabbb")], [5, 6, 7]).p == 1 / 56
    assert run([list("aaabbb")], [3, 4, 5]).p == 2 / 20


def test_a_request_that_is_never_answered_alike_tells_nothing() -> None:
    assert run([list("abcdefgh")], [5, 6, 7]).p == 1
    assert run([list("abcdefgh"), list("xxxxxyyy")], [5, 6, 7]).p == 1 / 56


def test_a_missing_answer_agrees_with_nothing() -> None:
    assert partition(["x", None, "x", None]) == (2, 5, 8)
    assert disputes(partition(["x", None]), 2)


def test_where_all_labelings_cannot_be_tried_they_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests: Outcomes = [list("aaaaabbb"), list("aaaabbbb"), list("abcdabcd")]
    exact = run(requests, [5, 6, 7]).p
    monkeypatch.setattr(permutation, "_MOST_UNIONS", 1)
    drawn = run(requests, [5, 6, 7])
    assert drawn.labelings > math.comb(8, 3)
    assert drawn.p == pytest.approx(exact, abs=0.005)
    assert drawn == run(requests, [5, 6, 7]), "the same evidence, the same verdict"
