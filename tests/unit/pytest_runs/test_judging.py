# SPDX-License-Identifier: Apache-2.0
"""From attempts to the verdict of a test."""

from typing import Any

import pytest

from ci_doctor.model.outcome import Verdict
from ci_doctor.pytest_runs.attempt import PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.explanation import Explanation, FlakyKind, Tally
from ci_doctor.pytest_runs.result import Circumstances, chance_of, judge, judge_tests
from tests.support.pytest_sessions import an_attempt

TEST = "test_a.py::test_a"
SUITE, ALONE, ORDER = RunKind.SUITE, RunKind.ALONE, RunKind.ORDER
NEW, BASELINE = RunKind.NEW, RunKind.BASELINE


def runs(*tried: tuple[RunKind, str]) -> tuple[TestAttempt, ...]:
    return tuple(an_attempt(outcome, TEST, run=kind) for kind, outcome in tried)


@pytest.mark.parametrize(
    ("tried", "verdict"),
    [
        ([(SUITE, "passed")], Verdict.PASS),
        ([(SUITE, "skipped")], Verdict.PASS),
        ([(SUITE, "xfailed")], Verdict.PASS),
        ([], Verdict.VOID),
        ([(SUITE, "failed")], Verdict.FAILED),
        ([(SUITE, "error"), (ALONE, "failed"), (ALONE, "timeout")], Verdict.FAILED),
        ([(SUITE, "crashed"), (ALONE, "crashed")], Verdict.FAILED),
        ([(SUITE, "lost"), (ALONE, "lost")], Verdict.VOID),
        ([(SUITE, "lost"), (ALONE, "failed")], Verdict.FAILED),
        ([(SUITE, "failed"), (ALONE, "passed"), (ORDER, "passed")], Verdict.FLAKY),
        (
            [(SUITE, "failed"), (ALONE, "failed"), (ALONE, "passed"), (ORDER, "passed")],
            Verdict.FLAKY,
        ),
        ([(SUITE, "failed"), (ALONE, "passed"), (ORDER, "failed")], Verdict.FAILED),
        # It passed and failed alone, whatever the order does.
        ([(SUITE, "failed"), (ALONE, "failed"), (ALONE, "passed")], Verdict.FLAKY),
        (
            [(SUITE, "failed"), (ALONE, "failed"), (ALONE, "passed"), (ORDER, "failed")],
            Verdict.FLAKY,
        ),
        ([(SUITE, "failed"), (ALONE, "lost"), (ALONE, "passed")], Verdict.FLAKY),
        # Neither a skip nor a missing result is a pass.
        ([(SUITE, "failed"), (ALONE, "skipped"), (ALONE, "skipped")], Verdict.FAILED),
        ([(SUITE, "failed"), (BASELINE, "skipped")], Verdict.FAILED),
        ([(SUITE, "lost"), (ALONE, "passed"), (ORDER, "lost")], Verdict.VOID),
        # It fails alone, because it needs those before it, and passes where they ran again.
        ([(SUITE, "failed"), (ALONE, "failed"), (ORDER, "passed")], Verdict.FLAKY),
        # The order could not be run again: not proven flaky.
        ([(SUITE, "failed"), (ALONE, "passed")], Verdict.FAILED),
        ([(SUITE, "failed"), (BASELINE, "passed")], Verdict.REGRESSION),
        ([(SUITE, "failed"), (BASELINE, "failed")], Verdict.FAILED),
        (
            [(SUITE, "failed"), (ALONE, "passed"), (ORDER, "passed"), (BASELINE, "passed")],
            Verdict.FLAKY,
        ),
        ([(SUITE, "passed"), (NEW, "passed"), (NEW, "failed")], Verdict.FLAKY),
        ([(SUITE, "passed"), (ORDER, "failed")], Verdict.FLAKY),
        # --dist=each: two workers, and one of them fails.
        ([(SUITE, "failed"), (SUITE, "passed")], Verdict.FAILED),
        ([(SUITE, "crashed"), (SUITE, "passed")], Verdict.FAILED),
    ],
)
def test_the_attempts_decide(tried: list[tuple[RunKind, str]], verdict: Verdict) -> None:
    assert judge(TEST, runs(*tried), Circumstances()).verdict is verdict


def test_a_failure_counts_although_another_test_of_its_node_id_was_not_to_run() -> None:
    session = PytestSession(kind=SUITE, collected=("a", "a"), attempts=(an_attempt("failed"),))

    judged = judge_tests([session], Circumstances(not_run={"a"}))

    assert [each.verdict for each in judged] == [Verdict.FAILED]


@pytest.mark.parametrize(
    ("tried", "known", "why"),
    [
        ([(SUITE, "failed"), (SUITE, "passed")], {}, "1 of 2 attempts failed"),
        (
            [(SUITE, "failed"), (ALONE, "failed"), (ORDER, "failed")],
            {},
            "each of 3 attempts failed",
        ),
        (
            [(SUITE, "failed")],
            {"alike": {TEST: ("b", "c")}},
            "its attempt failed; it fails as 2 others do, which ran again in its place",
        ),
        (
            [(SUITE, "failed")],
            {"out_of_time": {TEST}},
            "its attempt failed; the time for reruns was over",
        ),
    ],
)
def test_a_failure_says_how_often_and_why_not_oftener(
    tried: list[tuple[RunKind, str]], known: Any, why: str
) -> None:
    judged = judge(TEST, runs(*tried), Circumstances(**known))

    assert (judged.verdict, judged.why) == (Verdict.FAILED, why)


def test_a_crash_that_a_plugin_made_good_for_is_flaky() -> None:
    crashed = an_attempt("crashed", TEST, phases=(("crash", "rerun", 0.0),))
    tried = (crashed, *runs((SUITE, "passed")))

    assert judge(TEST, tried, Circumstances()).verdict is Verdict.FLAKY


def in_turns(rounds: int) -> tuple[TestAttempt, ...]:
    return runs((SUITE, "failed"), *[(ALONE, "passed"), (ORDER, "failed")] * rounds)


@pytest.mark.parametrize(
    ("rounds", "is_named", "end"), [(1, False, "which may be chance"), (2, False, "which may be chance"), (3, True, "3 of 3 runs alone")]
)  # fmt: skip
def test_an_order_is_named_only_once_chance_is_excluded(
    rounds: int, is_named: bool, end: str
) -> None:
    judged = judge(TEST, in_turns(rounds), Circumstances())

    assert (judged.verdict, judged.order_dependent) == (Verdict.FAILED, is_named)
    assert judged.why.startswith(f"failed {rounds + 1} of {rounds + 1} runs in the order")
    assert judged.why.endswith(end)


def test_the_chance_is_that_of_the_worst_failure_rate() -> None:
    for failures, passes in ((1, 1), (2, 3), (3, 3), (4, 1)):
        rates = [number / 1000 for number in range(1001)]
        worst = max(rate**failures * (1 - rate) ** passes for rate in rates)
        assert worst <= chance_of(failures, passes) == pytest.approx(worst, rel=1e-3)
    assert chance_of(5, 0) == chance_of(0, 5) == 1.0


@pytest.mark.parametrize(
    ("shown", "verdict", "is_named"),
    [
        ({"alone": Tally(passed=30, failed=29)}, Verdict.FLAKY, False),
        ({"alone": Tally(passed=8), "kind": FlakyKind.STATE}, Verdict.FAILED, True),
    ],
)
def test_the_runs_of_the_explanation_correct_the_verdict(
    shown: Any, verdict: Verdict, is_named: bool
) -> None:
    explanation = Explanation(runs=59, duration_s=1.0, **shown)
    judged = judge(TEST, in_turns(1), Circumstances(explained={TEST: explanation}))

    assert (judged.verdict, judged.order_dependent) == (verdict, is_named)


def test_a_further_attempt_in_the_process_is_of_the_same_test_unless_several_share_the_name() -> (
    None
):
    tried = (an_attempt("failed", TEST, pid=7), an_attempt("passed", TEST, pid=7))

    assert judge(TEST, tried, Circumstances()).verdict is Verdict.FLAKY
    assert judge(TEST, tried, Circumstances(repeated={TEST})).verdict is Verdict.FAILED


def test_a_cause_outside_the_change_is_infra_unless_the_base_passes() -> None:
    known = Circumstances(outside={TEST}, causes={TEST: "disk: No space left on device"})

    assert judge(TEST, runs((SUITE, "failed")), known).verdict is Verdict.INFRA
    at_base = judge(TEST, runs((SUITE, "failed"), (BASELINE, "passed")), known)
    assert at_base.verdict is Verdict.REGRESSION


def test_a_new_test_without_all_of_its_runs_is_void() -> None:
    known = Circumstances(new=(TEST,), new_runs=3)

    judged = judge(TEST, runs((SUITE, "passed"), (NEW, "passed")), known)

    assert judged.verdict is Verdict.VOID
    assert judged.why == "a new test; it has a result in 2 of 3 runs"


def test_every_collected_test_is_judged_but_those_that_were_not_to_run() -> None:
    session = PytestSession(kind=SUITE, collected=("a", "b", "c"))

    judged = judge_tests([session], Circumstances(not_run={"c"}))

    assert [(each.test, each.verdict) for each in judged] == [
        ("a", Verdict.VOID),
        ("b", Verdict.VOID),
    ]
