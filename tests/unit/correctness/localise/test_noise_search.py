# SPDX-License-Identifier: Apache-2.0
"""Searches under noise: over subsets of settings, over commits, and what one start shows."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from ci_doctor.correctness.localise.bisection import CommitNode, CommitSpace
from ci_doctor.correctness.localise.noise import (
    NoisySearch,
    Posterior,
    SearchEnd,
    SearchSpace,
    odds_of_difference,
)
from ci_doctor.correctness.localise.setting_search import SettingSpace, largest_set
from ci_doctor.correctness.localise.watched import (
    PlannedStart,
    ReplayedSearch,
    StartEvidence,
    replayed,
    watched,
)
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.model.facts.launch import FailureKind, ServiceFailure


def line(count: int) -> list[CommitNode]:
    """Commits one after the other."""
    return [CommitNode(id=str(each), parents=(each - 1,) if each else ()) for each in range(count)]


def searched(
    space: SearchSpace,
    has_fault: Callable[[int], bool],
    *,
    rates: tuple[float, float] = (0.0, 1.0),
    most: int = 60,
    broken: Callable[[int], bool] = lambda _: False,
    seed: int = 1,
) -> NoisySearch:
    search = NoisySearch(space, confidence=0.9, most=most)
    random = np.random.default_rng(seed)
    while (point := search.next_point()) is not None:
        if broken(point):
            search.skip(point)
        else:
            search.add(point, shown=bool(random.random() < rates[has_fault(point)]))
    return search


@pytest.mark.parametrize("truth", [(0,), (7,), (2, 5), (1, 3, 6)])
def test_the_smallest_set_of_settings_is_named(truth: tuple[int, ...]) -> None:
    search = searched(SettingSpace(8), lambda point: all(point >> each & 1 for each in truth))

    assert search.end is SearchEnd.FOUND
    assert search.best.names == truth
    # Both ends of the proof were started.
    assert all(search.counts(point)[0] for point in search.best.proof)


def test_of_two_settings_that_are_enough_one_is_named() -> None:
    search = searched(SettingSpace(6), lambda point: bool(point & 0b1010))

    assert search.end is SearchEnd.FOUND
    assert search.best.names in {(1,), (3,)}


def test_one_setting_under_noise_is_named_or_nothing() -> None:
    ends = []
    for seed in range(20):
        search = searched(
            SettingSpace(6), lambda point: bool(point >> 3 & 1), rates=(0.1, 0.7), seed=seed
        )
        ends.append((search.end, search.best.names))

    assert ends.count((SearchEnd.FOUND, (3,))) >= 13
    assert [end for end, names in ends if end is SearchEnd.FOUND and names != (3,)] == []


def test_a_subset_that_cannot_be_built_is_not_started_again() -> None:
    tried: list[int] = []

    def is_broken(point: int) -> bool:
        # The second setting needs the third.
        if point & 0b110 == 0b010:
            tried.append(point & 0b111)
            return True
        return False

    space = SettingSpace(5, building=(0, 1, 2))
    search = searched(space, lambda point: bool(point >> 4 & 1), broken=is_broken)

    assert (search.end, search.best.names) == (SearchEnd.FOUND, (4,))
    assert len(tried) == len(set(tried))


def test_large_sets_are_hypotheses_where_there_are_few_settings() -> None:
    assert largest_set(8) == 8
    assert largest_set(16) >= 4
    assert largest_set(150) == 2


@pytest.mark.parametrize("truth", [0, 1, 17, 38, 39])
def test_the_first_bad_commit_is_named(truth: int) -> None:
    search = searched(CommitSpace(line(40)), lambda point: point >= truth)

    assert (search.end, search.best.names) == (SearchEnd.FOUND, (truth,))
    # Beside the commit before it; the one before the first is the good end.
    assert search.best.proof == (truth, truth - 1)
    assert len(search.results) <= 20


def test_ends_that_do_not_differ_end_the_search_before_it_begins() -> None:
    search = searched(CommitSpace(line(40)), lambda _: False)

    assert search.end is SearchEnd.EQUAL
    assert {point for point, _ in search.results} == {-1, 39}


def test_a_flake_of_a_good_commit_derails_no_search() -> None:
    right = 0
    for seed in range(20):
        search = searched(
            CommitSpace(line(64)), lambda point: point >= 50, rates=(0.05, 0.8), seed=seed
        )
        right += search.best.names == (50,)

    assert right >= 17


def test_a_commit_on_a_branch_is_named_by_its_merge() -> None:
    # 0 - 1 - 2 - 3 - 7 - 8 and 1 - 4 - 5 - 6 - 7; the fault came with 5.
    parents = [(), (0,), (1,), (2,), (1,), (4,), (5,), (3, 6), (7,)]
    nodes = [CommitNode(id=str(number), parents=each) for number, each in enumerate(parents)]
    search = searched(CommitSpace(nodes), lambda point: point in {5, 6, 7, 8})

    assert (search.end, search.best.names) == (SearchEnd.FOUND, (5,))


def test_commits_that_are_not_built_are_one_answer_with_their_neighbour() -> None:
    search = searched(
        CommitSpace(line(30)), lambda point: point >= 12, broken=lambda point: 10 <= point <= 14
    )

    assert (search.end, search.best.names) == (SearchEnd.FOUND, (10, 11, 12, 13, 14, 15))


def test_a_long_run_of_commits_that_are_not_built_is_left_by_leaps() -> None:
    tried: set[int] = set()

    def is_broken(point: int) -> bool:
        if 20 <= point < 80:
            tried.add(point)
            return True
        return False

    search = searched(CommitSpace(line(100)), lambda point: point >= 90, broken=is_broken)

    assert search.best.names == (90,)
    assert len(tried) < 15


def test_a_revert_takes_a_fault_away_and_its_revert_brings_it_back() -> None:
    nodes = line(12)
    nodes[6] = CommitNode(id="6", parents=(5,), reverts=3)
    nodes[9] = CommitNode(id="9", parents=(8,), reverts=6)
    space = CommitSpace(nodes)

    assert [bool(space.faulty(point)[3]) for point in (2, 3, 5, 6, 8, 9, 10)] == [
        False, True, True, False, False, True, True,
    ]  # fmt: skip
    search = searched(space, lambda point: point in {3, 4, 5} or point >= 9)
    # What brought it first, or what brought it back.
    assert search.best.names in {(3,), (9,)}


def test_a_commit_that_is_reverted_before_the_bad_end_is_no_likely_answer() -> None:
    nodes = line(8)
    nodes[5] = CommitNode(id="5", parents=(4,), reverts=2)

    assert CommitSpace(nodes).prior[2] < 0.1 * CommitSpace(nodes).prior[3]


def test_points_for_several_machines_are_a_beginning_of_the_same_search() -> None:
    search = NoisySearch(CommitSpace(line(40)), confidence=0.9, most=40)

    assert search.next_points(4) == [-1, 39, -1, 39]
    assert search.results == []
    for point in search.next_points(6):
        search.add(point, shown=point == 39)
    several = search.next_points(3)
    assert several[0] == search.next_point()
    assert len(several) == 3


def seen(rates: tuple[float, float], times: int, truth: int = 4) -> Posterior:
    """What so many starts of each of ten commits, and of the bad end, come to."""
    posterior = Posterior([1.0] * 10)
    random = np.random.default_rng(3)
    for point in [9, *range(10)] * times:
        posterior.add(np.arange(10) <= point, shown=bool(random.random() < rates[point >= truth]))
    return posterior


def test_what_is_stated_is_less_than_what_is_likely_by_usual_rates() -> None:
    posterior = seen((0.05, 0.8), 6)

    assert 0.9 < posterior.probability([4]) < posterior.weights[4]
    assert 0.99 < posterior.probability(range(10)) < 1
    low, high = posterior.rates.good
    assert low <= 0.05 <= high < posterior.rates.bad[1]
    assert posterior.rates.bad[0] <= 0.8 <= posterior.rates.bad[1]


def test_nothing_is_stated_until_it_is_ruled_out_that_nothing_makes_a_difference() -> None:
    assert seen((0.3, 0.3), 6).probability(range(10)) == 0
    assert seen((0.05, 0.8), 1).probability(range(10)) == 0


def test_what_is_stated_is_true_at_near_rates() -> None:
    right: list[bool] = []
    stated: list[float] = []
    for seed in range(30):
        search = searched(
            CommitSpace(line(8)), lambda point: point >= 5, rates=(0.2, 0.6), most=60, seed=seed
        )
        if search.end is SearchEnd.FOUND:
            right.append(search.best.names == (5,))
            stated.append(search.best.probability)

    assert len(right) > 5
    assert sum(right) >= sum(stated) - 2 * math.sqrt(sum(each * (1 - each) for each in stated))


def test_an_answer_needs_two_sides_that_differ_by_their_own_starts() -> None:
    for seed in range(10):
        search = searched(
            CommitSpace(line(40)), lambda point: point >= 17, rates=(0.05, 0.8), seed=seed
        )
        if search.end is SearchEnd.FOUND:
            bad, good = search.best.proof
            assert odds_of_difference(search.counts(good), search.counts(bad)) >= 20


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("rate", [0.2, 0.5, 1.0])
def test_ends_that_show_it_alike_never_lead_to_an_answer(count: int, rate: float) -> None:
    ends = {
        searched(CommitSpace(line(count)), lambda _: True, rates=(rate, rate), seed=seed).end
        for seed in range(10)
    }

    assert ends <= {SearchEnd.EQUAL, SearchEnd.UNSURE, SearchEnd.STARTS}


def test_few_starts_at_near_rates_are_not_enough_for_an_answer() -> None:
    ends = [
        searched(CommitSpace(line(40)), lambda point: point >= 17, rates=(0.1, 0.3), seed=seed).end
        for seed in range(10)
    ]

    assert SearchEnd.FOUND not in ends


def test_a_fault_that_goes_and_comes_back_is_named_where_it_comes() -> None:
    for seed in range(5):
        search = searched(
            CommitSpace(line(64)), lambda point: 20 <= point < 30 or point >= 45, seed=seed
        )
        assert search.best.names in {(20,), (45,)}


def start(arm: Arm, number: int, **answers: str | None) -> ArmStart:
    return ArmStart(arm=arm, number=number, answers=answers)


def test_a_start_differs_by_an_answer_that_two_good_starts_did_not_give() -> None:
    good = [start(Arm.BASELINE, number, a="x", b="y") for number in range(3)]
    bad = [start(Arm.CANDIDATE, number, a="z", b="y") for number in range(3)]
    looks = watched(("a", "b"), good, bad)

    assert looks.differing(bad[0]) == ("a",)
    assert looks.differing(good[0]) == ()
    assert looks.differing(start(Arm.CANDIDATE, 9, a="x", b=None)) == ("b",)


def test_a_flake_of_the_baseline_that_looks_like_the_fault_is_none_of_its_answers() -> None:
    good = [start(Arm.BASELINE, number, a=text) for number, text in enumerate(("x", "z", "x"))]
    bad = [start(Arm.CANDIDATE, number, a="z") for number in range(3)]

    assert watched(("a",), good, bad).answers == {"a": frozenset({"x"})}


def test_requests_that_the_baseline_does_not_repeat_are_not_looked_at() -> None:
    good = [start(Arm.BASELINE, number, a=f"{number}", b="y") for number in range(3)]
    bad = [start(Arm.CANDIDATE, number, a="z", b="y") for number in range(3)]
    looks = watched(("a", "b"), good, bad)

    assert (looks.noisy, looks.unanswered, set(looks.answers)) == (1, 0, {"b"})
    assert watched(("a",), [], bad).answers == {}
    # What no start of the good end answers is no noise.
    silent = watched(("a",), [start(Arm.BASELINE, number, a=None) for number in range(3)], bad)
    assert (silent.noisy, silent.unanswered) == (0, 1)


def evidence(point: int, number: int, answer: str | None, code: int = 1) -> StartEvidence:
    """A start at a point; without an answer its server ended with this code."""
    arm = Arm.BASELINE if point == -1 else Arm.CANDIDATE
    failure = None
    if answer is None:
        failure = ServiceFailure(
            kind=FailureKind.DIED, service="s", message="s died", exit_code=code, duration_s=1.0
        )
    made = ArmStart(arm=arm, number=number, answers={"a": answer}, failed=answer is None)
    result = StartResult(start=made, failure=failure, duration_s=1.0, digests={}, errors={})
    return StartEvidence(planned=PlannedStart(arm=arm, number=number, point=point), result=result)


def replay(bad_end: str | None, *more: StartEvidence) -> ReplayedSearch:
    """Three starts of each end of ten commits, and more."""
    ends = [evidence(-1, number, "x") for number in (1, 2, 3)]
    ends += [evidence(9, number, bad_end) for number in (1, 2, 3)]
    search = NoisySearch(CommitSpace(line(10)), confidence=0.95, most=40)
    return replayed(search, [*ends, *more], ("a",))


def test_a_commit_that_does_not_start_is_skipped_if_the_bad_one_starts() -> None:
    state = replay("z", evidence(4, 4, None))

    assert state.search.space.broken == {4}
    assert state.shown["B4"] is None


def test_that_it_does_not_start_is_the_fault_if_the_bad_one_does_not_either() -> None:
    state = replay(None, evidence(4, 4, None), evidence(5, 5, None, code=125))

    assert state.shown["B4"] is True
    # git-bisect(1): 125 is a commit that cannot be tested.
    assert state.shown["B5"] is None
    assert state.search.space.broken == {5}


def test_an_end_that_never_answers_leaves_nothing_to_watch() -> None:
    search = NoisySearch(CommitSpace(line(10)), confidence=0.95, most=40)
    made = [evidence(point, number, None) for point in (-1, 9) for number in (1, 2, 3)]
    state = replayed(search, made, ("a",))

    assert state.watched is not None
    assert state.watched.answers == {}
