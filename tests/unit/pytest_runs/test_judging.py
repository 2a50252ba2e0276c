# SPDX-License-Identifier: Apache-2.0
"""From attempts to the verdict of a test."""

import pytest

from ci_doctor.model.verdict import Verdict
from ci_doctor.pytest_runs.attempt import PytestOutcome, PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.judging import Circumstances, RunAttempt, judge, judge_tests

TEST = "test_a.py::test_a"
SUITE, ALONE, ORDER = RunKind.SUITE, RunKind.ALONE, RunKind.ORDER
NEW, BASELINE = RunKind.NEW, RunKind.BASELINE


def runs(*tried: tuple[RunKind, str]) -> tuple[RunAttempt, ...]:
    return tuple(
        RunAttempt(kind=kind, attempt=TestAttempt(test=TEST, outcome=PytestOutcome(outcome)))
        for kind, outcome in tried
    )


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
    failed = TestAttempt(test="a", outcome=PytestOutcome.FAILED)
    session = PytestSession(kind=SUITE, collected=("a", "a"), attempts=(failed,))

    judged = judge_tests([session], Circumstances(not_run={"a"}))

    assert [each.verdict for each in judged] == [Verdict.FAILED]


def test_one_worker_of_two_that_fails_is_counted() -> None:
    judged = judge(TEST, runs((SUITE, "failed"), (SUITE, "passed")), Circumstances())

    assert judged.why == "1 of 2 attempts failed"


def test_a_crash_that_a_plugin_made_good_for_is_flaky() -> None:
    crashed = TestAttempt(
        test=TEST, outcome=PytestOutcome.CRASHED, phases=(("crash", "rerun", 0.0),)
    )
    tried = (RunAttempt(kind=SUITE, attempt=crashed), *runs((SUITE, "passed")))

    assert judge(TEST, tried, Circumstances()).verdict is Verdict.FLAKY


def test_the_first_test_of_a_process_has_no_order_to_blame() -> None:
    tried = runs((SUITE, "failed"), (ALONE, "passed"))

    assert judge(TEST, tried, Circumstances(first={TEST})).verdict is Verdict.FLAKY


def test_the_attempts_in_the_same_order_count() -> None:
    tried = runs((SUITE, "failed"), (ALONE, "failed"), (ORDER, "failed"))

    assert judge(TEST, tried, Circumstances()).why == "each of 3 attempts failed"


def test_an_order_that_breaks_it_each_time_is_named() -> None:
    judged = judge(
        TEST, runs((SUITE, "failed"), (ALONE, "passed"), (ORDER, "failed")), Circumstances()
    )

    assert judged.order_dependent


def test_a_cause_outside_the_change_is_infra_unless_the_base_passes() -> None:
    known = Circumstances(outside={TEST}, causes={TEST: "disk: No space left on device"})

    assert judge(TEST, runs((SUITE, "failed")), known).verdict is Verdict.INFRA
    at_base = judge(TEST, runs((SUITE, "failed"), (BASELINE, "passed")), known)
    assert at_base.verdict is Verdict.REGRESSION


def test_a_new_test_without_all_of_its_runs_is_void() -> None:
    known = Circumstances(new=(TEST,), new_runs=3)

    judged = judge(TEST, runs((SUITE, "passed"), (NEW, "passed")), known)

    assert (judged.verdict, judged.why) == (
        Verdict.VOID,
        "a new test; it has a result in 2 of 3 runs",
    )


def test_every_collected_test_is_judged_but_those_that_were_not_to_run() -> None:
    session = PytestSession(kind=SUITE, collected=("a", "b", "c"))

    judged = judge_tests([session], Circumstances(not_run={"c"}))

    assert [(each.test, each.verdict) for each in judged] == [
        ("a", Verdict.VOID),
        ("b", Verdict.VOID),
    ]
