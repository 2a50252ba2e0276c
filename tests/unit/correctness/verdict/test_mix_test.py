# SPDX-License-Identifier: Apache-2.0

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, product
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.mix_test import (
    MISSING,
    Labels,
    Pattern,
    Patterns,
    among,
    mix_test,
    own_p,
    pattern,
    patterns,
    traits,
)
from ci_doctor.correctness.verdict.starts import Answer, ArmStart

REQUESTS = ("r1", "r2", "r3", "r4")
ANSWERS: tuple[dict[str, Answer], ...] = (
    {"r1": "x", "r2": "x", "r3": None, "r4": None},
    {"r1": "x", "r2": "y", "r3": "a", "r4": None},
    {"r1": "x", "r2": "x", "r3": "b", "r4": "c"},
    {"r1": "x", "r2": "z", "r3": "a"},
)
STARTS = [
    ArmStart(arm=Arm.BASELINE, number=number, answers=answers)
    for number, answers in enumerate(ANSWERS, 1)
]


def test_classes_are_numbered_as_they_appear_and_a_missing_answer_has_its_own() -> None:
    assert pattern(["b", "a", None, "b", "c"]) == (0, 1, MISSING, 0, 2)
    assert pattern([None, "a"]) == (MISSING, 0)


def test_requests_on_which_the_same_starts_agree_are_one_pattern() -> None:
    assert patterns(STARTS, REQUESTS) == {
        (0, 0, 0, 0): ["r1"],
        (0, 1, 0, 2): ["r2"],
        (MISSING, 0, 1, 0): ["r3"],
        (MISSING, MISSING, 0, MISSING): ["r4"],
    }


def test_the_patterns_of_some_starts_are_those_of_these_starts_alone() -> None:
    everything = patterns(STARTS, REQUESTS)

    for places in ([1, 3], [2, 0], [3, 2, 1, 0], [0]):
        chosen = [STARTS[place] for place in places]
        assert among(everything, places) == patterns(chosen, REQUESTS)


def test_a_request_that_nobody_answered_is_missing_everywhere() -> None:
    assert patterns(STARTS[:2], ["r4", "unknown"]) == {(MISSING, MISSING): ["r4", "unknown"]}


A, B = False, True


def test_p(patterns: Sequence[Pattern], labels: Labels) -> float:
    given: dict[Pattern, list[str]] = {}
    for index, each in enumerate(patterns):
        given.setdefault(each, []).append(f"r{index}")
    return mix_test(traits(given, [False] * len(labels.block)), labels).p


test_p.__test__ = False  # type: ignore[attr-defined]


def all_labels(labels: Labels) -> list[tuple[bool, ...]]:
    """Every labeling with as many candidate starts in each block."""
    blocks: dict[int, list[int]] = {}
    for index, number in enumerate(labels.block):
        blocks.setdefault(number, []).append(index)
    choices = []
    for indices in blocks.values():
        size = sum(labels.candidate[index] for index in indices)
        choices.append([set(each) for each in combinations(indices, size)])
    result = []
    for chosen in product(*choices):
        members = set().union(*chosen)
        result.append(tuple(index in members for index in range(len(labels.block))))
    return result


def chi_squared(values: Sequence[object], labels: Sequence[bool]) -> float:
    """Pearson's chi squared of values and labels over the number of starts, by its textbook definition."""
    size, total = len(labels), 0.0
    cells = Counter(zip(values, labels, strict=True))
    for value, times in Counter(values).items():
        for label, starts in Counter(labels).items():
            expected = times * starts / size
            total += (cells[value, label] - expected) ** 2 / expected
    return total / size


def largest_difference(patterns: Sequence[Pattern], labels: Sequence[bool]) -> float:
    """That of all columns, as docs/statistics.md defines them; a table of answers yields to a column of one."""
    differences = [0.0]
    for each in patterns:
        differences += [chi_squared([x == answer for x in each], labels) for answer in set(each)]
        pooled = [x if each.count(x) > 1 else "once" for x in each]
        if len(set(pooled)) > 2:
            differences.append((1 - 1e-6) * chi_squared(pooled, labels))
    starts = range(len(labels))
    failures = [sum(each[start] == MISSING for each in patterns) for start in starts]
    alone = [
        sum(each[start] != MISSING and each.count(each[start]) == 1 for each in patterns)
        for start in starts
    ]
    apart = [
        sum(
            2 * each.count(each[start]) < len(each) < 2 * max(map(each.count, each))
            for each in patterns
        )
        for start in starts
    ]
    for counts in (failures, alone, apart):
        more = [count > sum(counts) / len(counts) for count in counts]
        candidates = [bad for bad, label in zip(more, labels, strict=True) if label]
        if sum(candidates) / len(candidates) > sum(more) / len(more):
            differences.append(chi_squared(more, labels))
    return max(differences)


@st.composite
def experiments(draw: st.DrawFn) -> tuple[list[Pattern], Labels]:
    """Up to eight starts in two blocks, and requests with up to four answers, or none."""
    sizes = draw(st.sampled_from([[2, 4], [2, 6], [6], [5]]))
    labels: list[bool] = []
    blocks: list[int] = []
    for number, size in enumerate(sizes):
        candidates = draw(st.integers(1, size - 1))
        labels += [B] * candidates + [A] * (size - candidates)
        blocks += [number] * size
    answers_of = draw(st.sampled_from([("x", "y"), ("x", "y", "z", "w"), ("x", "y", None)]))
    answers = st.lists(st.sampled_from(answers_of), min_size=len(labels), max_size=len(labels))
    patterns = [pattern(draw(answers)) for _ in range(draw(st.integers(1, 4)))]
    return patterns, Labels(candidate=tuple(labels), block=tuple(blocks))


@given(experiments())
@example(  # two requests of one pattern weigh two
    (
        [(0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 1, 1), (0, 0, 0, 1, 1, 0)],
        Labels(candidate=(True, True, False, False, False, False), block=(0,) * 6),
    )
)
def test_it_counts_what_its_definition_counts(experiment: tuple[list[Pattern], Labels]) -> None:
    patterns, labels = experiment
    if not any(len(set(each)) > 1 for each in patterns):
        return
    every = all_labels(labels)
    real = largest_difference(patterns, labels.candidate)
    extreme = sum(largest_difference(patterns, each) >= real - 1e-9 for each in every)
    assert test_p(patterns, labels) == pytest.approx(extreme / len(every))


@given(experiments(), st.sampled_from([0.02, 0.05, 0.2]))
def test_it_rejects_no_more_labelings_than_its_level_allows(
    experiment: tuple[list[Pattern], Labels], level: float
) -> None:
    patterns, labels = experiment
    if not any(len(set(each)) > 1 for each in patterns):
        return
    every = all_labels(labels)
    rejected = 0
    for labeling in every:
        rejected += test_p(patterns, Labels(candidate=labeling, block=labels.block)) <= level
    assert rejected <= level * len(every)


TEN = Labels(candidate=(A, B, *(A,) * 3, *(B,) * 5), block=(0, 0, *(1,) * 8))
APART = tuple(int(label) for label in TEN.candidate)


def test_arms_that_are_apart_reach_the_smallest_p() -> None:
    result = mix_test(traits({APART: ["r0", "r7"]}, [False] * 10), TEN)
    assert (result.p, result.smallest_p, result.labelings) == (1 / 112, 1 / 112, 112)
    assert result.requests == ("r0", "r7")


def test_a_fault_with_several_wrong_answers_counts_as_one_difference() -> None:
    several = (0, 2, 1, 0, 1, 3, 2, 3, 2, 3)
    assert test_p([several], TEN) == 1 / 112


def test_answers_that_never_repeat_tell_nothing() -> None:
    assert test_p([tuple(range(10))], TEN) == 1.0


def test_a_candidate_that_answers_nothing_differs() -> None:
    assert test_p([tuple(MISSING if label else 0 for label in TEN.candidate)], TEN) == 1 / 112


def test_fewer_failures_than_the_baseline_has_are_no_regression() -> None:
    failing = [not label for label in TEN.candidate]
    same: Patterns = {(0,) * 10: ["r0"]}
    assert mix_test(traits(same, failing), TEN).p == 1.0
    assert mix_test(traits(same, list(TEN.candidate)), TEN).p == 1 / 112


def test_a_fault_on_another_request_in_each_start_is_one_difference() -> None:
    places = [index for index, label in enumerate(TEN.candidate) if label]
    # Two wrong starts on each of three requests: no request alone separates the arms.
    scattered = [
        tuple(int(index in places[turn : turn + 2]) for index in range(10)) for turn in (0, 2, 4)
    ]
    assert test_p(scattered, TEN) == 1 / 112
    assert test_p(scattered[:1], TEN) > 0.1

    # A baseline that has it is no regression of the candidate.
    mended = [
        tuple(int(index == place) for index in range(10))
        for place, label in enumerate(TEN.candidate)
        if not label
    ]
    assert test_p(mended, TEN) > 0.1


def test_answers_of_its_own_are_counted_by_start_and_request() -> None:
    one: Patterns = {(0, 1, *(0,) * 8): ["r0"]}
    assert own_p(traits(one, [False] * 10), TEN) == 0.5, "the other start of its block"
    assert own_p(traits({APART: ["r0"]}, [False] * 10), TEN) == 1 / 112
    assert own_p(traits({(0, *(1,) * 9): ["r0"]}, [False] * 10), TEN) == 1.0


def test_of_too_many_labelings_a_sample_is_drawn_and_p_is_never_zero() -> None:
    size = 20
    labels = Labels(candidate=(A, B) * (size // 2), block=(0,) * size)
    apart = tuple(int(label) for label in labels.candidate)
    result = mix_test(traits({apart: ["r0"]}, [False] * size), labels)
    assert result.labelings == 184_756
    assert 0 < result.p <= 1 / 1000
    assert result == mix_test(traits({apart: ["r0"]}, [False] * size), labels), "repeatable"


def test_a_machine_that_alternates_is_no_regression() -> None:
    # Every second start is different, whatever its arm: the order was drawn, so the test is exact.
    alternating = tuple(index % 2 for index in range(10))
    source = Random(7)
    rejected = 0
    for _ in range(400):
        first = source.sample([A, B], 2)
        second = source.sample([A] * 3 + [B] * 5, 8)
        labels = Labels(candidate=(*first, *second), block=TEN.block)
        rejected += test_p([alternating], labels) <= 0.0182
    assert rejected <= 400 * 0.04
