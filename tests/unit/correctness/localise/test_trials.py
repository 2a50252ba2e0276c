# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from pathlib import Path

import pytest

from ci_doctor.correctness.localise.trials import (
    LocalisedDifference,
    SentAnswer,
    observed,
    one_by_one,
    subject_of,
)
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.run import judge
from ci_doctor.correctness.verdict.validity import Decision
from ci_doctor.model.outcome import Verdict
from tests.unit.correctness.experiments import experiment, result
from tests.unit.correctness.prepared import prepared


def arms(baseline: Sequence[str], candidate: Sequence[str], passes: int = 1) -> list[StartResult]:
    """A start for each text, in the order of a first look: A1 B1, then the others."""
    starts = []
    for number in range(max(len(baseline), len(candidate))):
        for letter, texts in (("A", baseline), ("B", candidate)):
            if number < len(texts):
                starts.append(result(f"{letter}{number + 1}", texts[number], passes))
    return starts


def found(
    directory: Path, made: Experiment, count: int = 2, passes: int = 1
) -> tuple[LocalisedDifference | None, Decision]:
    ready = prepared(directory, count, passes=passes)
    decision = judge(ready, made)
    return subject_of(ready.plan, made, decision), decision


def test_the_first_request_that_carries_a_regression_is_localised(tmp_path: Path) -> None:
    made = experiment(*arms(["one u v"] * 4, ["one x y"] * 6))
    subject, decision = found(tmp_path, made, 3)
    assert decision.verdict is Verdict.REGRESSION
    assert subject is not None
    assert (subject.request.id, subject.differing) == ("r1", ("r1", "r2"))
    assert (subject.differing_pairs, subject.pairs) == (24, 24)
    assert subject.always_differs
    # No more than all are at once.
    assert subject.concurrency == 3


def test_noise_on_another_request_is_not_taken_for_the_difference(tmp_path: Path) -> None:
    baseline = ["one u", "one v", "one u", "one v"]
    candidate = ["two u", "two v", "two u", "two v", "two u", "two u"]
    subject, _ = found(tmp_path, experiment(*arms(baseline, candidate)))
    assert subject is not None
    assert subject.differing == ("r0",)


def test_of_a_flaky_run_the_pairs_that_differ_are_counted(tmp_path: Path) -> None:
    made = experiment(*arms(["one u", "one v"], ["one v", "one u"]))
    subject, decision = found(tmp_path, made)
    assert decision.verdict is Verdict.FLAKY
    assert subject is not None
    assert (subject.request.id, subject.differing_pairs, subject.pairs) == ("r1", 2, 4)
    assert not subject.always_differs


@pytest.mark.parametrize(
    ("baseline", "candidate", "verdict"),
    [
        (["one u"], ["one u"], Verdict.PASS),
        (["one u", "one w"], ["one v"], Verdict.INCONCLUSIVE),
        (["- -"] * 4, ["one u"] * 6, Verdict.VOID),
        # A candidate that answers nothing.
        (["one u"] * 5, ["- -"] * 6, Verdict.REGRESSION),
    ],
)
def test_what_shows_no_difference_of_answers_beyond_noise_has_nothing_to_localise(
    tmp_path: Path, baseline: Sequence[str], candidate: Sequence[str], verdict: Verdict
) -> None:
    subject, decision = found(tmp_path, experiment(*arms(baseline, candidate)))
    assert (decision.verdict, subject) == (verdict, None)


def test_what_is_undecided_is_localised_where_the_baseline_never_varied(tmp_path: Path) -> None:
    subject, decision = found(tmp_path, experiment(*arms(["one u", "one u"], ["one v"])))
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert subject is not None
    assert subject.request.id == "r1"


def test_the_length_of_an_answer_is_that_of_one_of_its_choices() -> None:
    """Three short choices are as many tokens as a long answer, and no long answer."""
    given = [{"r0": SentAnswer(answer="a", text="one two", answer_tokens=60, choices=3)}]
    (send,) = observed(one_by_one(["r0"]), given, given).sends
    assert (send.length, send.answer_tokens) == (20, 60)


def test_what_an_answer_says_ends_with_the_word_in_which_it_differs() -> None:
    given = [{"r0": SentAnswer(answer="a", text="a most naïve dog")}]
    other = [{"r0": SentAnswer(answer="b", text="a most na?ve dog")}]
    (send,) = observed(one_by_one(["r0"]), given, other).sends
    assert send.said == "a most naïve"
    (send,) = observed(one_by_one(["r0"]), given, given).sends
    assert send.said == "a most naïve dog"


@pytest.mark.parametrize(("baseline", "localised"), [("one one u u", False), ("one one u v", True)])
def test_of_a_flake_that_each_start_repeats_no_request_is_the_condition(
    tmp_path: Path, baseline: str, localised: bool
) -> None:
    made = experiment(
        result("A1", baseline, passes=2),
        result("A2", "one one v v", passes=2),
        result("B1", "one one v v", passes=2),
        result("B2", baseline, passes=2),
    )
    subject, decision = found(tmp_path, made)
    assert decision.verdict is Verdict.FLAKY
    assert (subject is not None) is localised
