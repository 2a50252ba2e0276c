# SPDX-License-Identifier: Apache-2.0
"""How few trials find the candidates that are enough."""

import json
import math
from collections.abc import Callable, Generator
from itertools import pairwise
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from ci_doctor.pytest_runs.trial import (
    CRASHED,
    LEVEL,
    MORE_PAIRS,
    PAIRS,
    TIMED_OUT,
    WRONG_KIND_AT_MOST,
    Ending,
    FlakyTrial,
    Search,
    TrialResult,
    error_class,
    fisher,
    mostly,
    one_of,
    result_of,
    schedule,
    some_of,
    strictly,
)

CANDIDATES = tuple(f"c{number}" for number in range(64))


def trial_of(candidates: tuple[str, ...]) -> FlakyTrial:
    return FlakyTrial(target="t", before=candidates)


def searched(search: Search, needed: set[str]) -> tuple[tuple[str, ...], int]:
    """What the search finds if all of `needed` are needed, and after how many trials.

    No candidates may be tried twice.
    """
    trials = 0
    tried: set[tuple[str, ...]] = set()
    try:
        trial = next(search)
        while True:
            trials += 1
            assert trial.before not in tried
            tried.add(trial.before)
            is_enough = needed <= set(trial.before)
            ending = Ending.FAILED if is_enough else Ending.PASSED
            trial = search.send(TrialResult(ending=ending))
    except StopIteration as stop:
        return stop.value, trials


@hypothesis.given(
    strategies.integers(1, 64).flatmap(
        lambda n: strategies.tuples(strategies.just(n), strategies.integers(0, n - 1))
    )
)
def test_one_candidate_is_found_in_log2_trials(case: tuple[int, int]) -> None:
    count, place = case

    found, trials = searched(
        one_of(CANDIDATES[:count], trial_of, Ending.FAILED), {CANDIDATES[place]}
    )

    assert found == (CANDIDATES[place],)
    assert trials <= math.ceil(math.log2(count))


@hypothesis.given(strategies.sets(strategies.sampled_from(CANDIDATES), min_size=1, max_size=4))
def test_candidates_that_are_needed_together_are_found_without_another(needed: set[str]) -> None:
    found, _ = searched(some_of(CANDIDATES, trial_of, Ending.FAILED), needed)

    assert set(found) == needed


CAUSE = FlakyTrial(target="t", zone="Asia/Kolkata")
CONTROL = FlakyTrial(target="t")


def confirmed(
    search: Generator[FlakyTrial, TrialResult, bool], cause: str, control: str
) -> tuple[bool, int]:
    """The answer, and the number of trials; the letters are endings in turn, F or P."""
    endings = {CAUSE: iter(cause), CONTROL: iter(control)}
    trials = 0
    try:
        trial = next(search)
        while True:
            trials += 1
            letter = next(endings[trial])
            ending = {"F": Ending.FAILED, "P": Ending.PASSED, "O": Ending.OTHER}[letter]
            trial = search.send(TrialResult(ending=ending))
    except StopIteration as stop:
        return stop.value, trials


@pytest.mark.parametrize(
    ("search", "cause", "control", "answer"),
    [
        (strictly, "FFFFF", "PPPPP", (True, 10)),
        # One run that disagrees, and one without a result.
        (strictly, "FFFFP", "PPPPP", (False, 10)),
        (strictly, "FFFFF", "PPPPF", (False, 9)),
        (strictly, "O", "P", (False, 1)),
        (mostly, "FFFFPFFFFFFF", "PPPPPPPPPPPF", (True, 24)),
        # It fails half of the time.
        (mostly, "FFPFPFPFPFPF", "PPPPPPFPPFPP", (False, 24)),
        # It makes no difference, and is given up early.
        (mostly, "FPFPF", "FPFPF", (False, 10)),
    ],
)
def test_five_pairs_that_agree_confirm_strictly_and_an_exact_test_confirms_mostly(
    search: Callable[..., Any], cause: str, control: str, answer: tuple[bool, int]
) -> None:
    assert confirmed(search(CAUSE, CONTROL, Ending.FAILED), cause, control) == answer


def test_fishers_test_agrees_with_a_table() -> None:
    # Fisher's tea tasting: three of four cups right, both ways.
    assert fisher(3, 1, 4) == pytest.approx(17 / 70)
    assert fisher(4, 0, 4) == pytest.approx(1 / 70)


@pytest.mark.parametrize("pairs", [PAIRS, MORE_PAIRS])
def test_both_conditions_have_as_many_runs(pairs: int) -> None:
    assert sum(schedule(pairs)) == pairs


def test_the_runs_do_not_take_strict_turns() -> None:
    assert any(one == other for one, other in pairwise(schedule(PAIRS)))


def test_no_rate_of_chance_failures_passes_a_confirmation_more_often_than_promised() -> None:
    rates = [number / 100 for number in range(101)]
    strict = max(rate**PAIRS * (1 - rate) ** PAIRS for rate in rates)

    assert strict == 2.0 ** (-2 * PAIRS)
    assert 16 * (strict + LEVEL) == pytest.approx(WRONG_KIND_AT_MOST)


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("assert 1 == 2\n  where", "AssertionError"),
        ("AssertionError: no\nassert 1", "AssertionError"),
        ("urllib.error.URLError: <urlopen error>", "URLError"),
        ("KeyError: 'x'", "KeyError"),
        ("RuntimeError", "RuntimeError"),
        ("Failed: DID NOT RAISE", "Failed"),
        ("its process was ended", None),
        ("", None),
        (None, None),
    ],
)
def test_the_class_stands_before_the_colon(message: str | None, name: str | None) -> None:
    assert error_class(message) == name


TRIAL = FlakyTrial(target="t")


def written(**fields: object) -> bytes:
    return json.dumps({"began": True, **fields}).encode()


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        ("ConnectionRefusedError", Ending.FAILED),
        ("AssertionError", Ending.OTHER),
        # Without a known one, any failure counts.
        (None, Ending.FAILED),
    ],
)
def test_only_a_failure_by_the_suspects_exception_is_its_failure(
    error: str | None, ending: Ending
) -> None:
    text = written(outcome="failed", types=["URLError", "OSError", "ConnectionRefusedError"])

    assert result_of(TRIAL, text, 1, error).ending is ending


@pytest.mark.parametrize(("exit_code", "error"), [(None, TIMED_OUT), (-11, CRASHED)])
def test_a_process_that_ends_within_the_target_failed(exit_code: int | None, error: str) -> None:
    assert result_of(TRIAL, written(), exit_code, error).ending is Ending.FAILED


@pytest.mark.parametrize("text", [None, written(began=False), written(outcome="skipped")])
def test_a_target_that_did_not_run_neither_passed_nor_failed(text: bytes | None) -> None:
    assert result_of(TRIAL, text, 0, None).ending is Ending.OTHER


def test_only_the_targets_own_connections_count() -> None:
    text = written(outcome="passed", connected=[["other", "a:1"], ["t", "b:2"]])

    assert result_of(TRIAL, text, 0, None).connected == ("b:2",)
