# SPDX-License-Identifier: Apache-2.0
"""What is run again after a failure."""

import itertools
from typing import TYPE_CHECKING, Any, cast

import pytest

from ci_doctor.model.outcome import Verdict
from ci_doctor.pytest_runs.attempt import PytestOutcome, PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.plan import PytestPlan
from ci_doctor.pytest_runs.reruns import (
    Reruns,
    SuiteFailure,
    has_passed,
    orders_to_repeat,
    representatives,
    suite_failures,
)
from ci_doctor.pytest_runs.result import Circumstances, judge
from ci_doctor.pytest_runs.stages import rest_after
from tests.support.pytest_sessions import a_plan, an_attempt

if TYPE_CHECKING:
    from ci_doctor.pytest_runs.process import PytestRunner


def attempt(name: str, outcome: str, pid: int | None = 7) -> TestAttempt:
    return an_attempt(outcome, name, pid=pid)


def session(*attempts: TestAttempt, **order: tuple[str, ...]) -> PytestSession:
    by_process = {int(pid.removeprefix("p")): names for pid, names in order.items()}
    return PytestSession(kind=RunKind.SUITE, attempts=attempts, order=by_process)


def test_a_failure_knows_the_tests_before_it_in_its_process() -> None:
    ran = session(attempt("b", "failed"), attempt("z", "error", 8), p7=("a", "b"), p8=("y", "z"))

    failures = suite_failures([ran])

    assert [(each.test, each.before) for each in failures] == [("b", ("a",)), ("z", ("y",))]


def test_a_failure_that_passed_later_in_the_suite_is_none() -> None:
    assert suite_failures([session(attempt("a", "failed"), attempt("a", "passed"))]) == ()


def test_a_failure_of_an_unknown_order_says_so() -> None:
    (failure,) = suite_failures([session(attempt("a", "crashed", None))])

    assert not failure.is_order_known


def test_one_run_serves_all_failures_of_a_process() -> None:
    ran = session(
        attempt("b", "failed"),
        attempt("d", "failed"),
        attempt("z", "failed", 8),
        p7=("a", "b", "c", "d", "e"),
        p8=("y", "z"),
    )

    assert orders_to_repeat(suite_failures([ran])) == (("a", "b", "c", "d"), ("y", "z"))


def test_the_first_test_of_a_process_is_repeated_with_all_files_collected() -> None:
    failures = suite_failures([session(attempt("a", "failed"), p7=("a",))])

    assert orders_to_repeat(failures) == (("a",),)


def failing(*messages: str) -> list[SuiteFailure]:
    attempts = [
        an_attempt("failed", f"t{number}", message=message, line=number)
        for number, message in enumerate(messages, start=3)
    ]
    return [SuiteFailure(attempt=each, before=(), is_order_known=True) for each in attempts]


def test_three_of_many_that_fail_alike_run_again() -> None:
    failures = failing(*[f"ConnectionError: port {number}" for number in range(9)], "KeyError: 'x'")

    chosen, spared = representatives(failures)

    assert [each.test for each in chosen] == ["t3", "t6", "t9", "t12"]
    assert set(spared) == {"t4", "t5", "t7", "t8", "t10", "t11"}
    assert set(spared.values()) == {("t3", "t6", "t9")}


@pytest.mark.parametrize(
    "messages", [["ConnectionError: x"] * 4, ["assert 1 == 2"] * 9, [f"{c}Error: x" for c in "ABCDEFG"]]
)  # fmt: skip
def test_few_or_unlike_failures_all_run_again(messages: list[str]) -> None:
    # Of the assertions, each is at another place.
    chosen, spared = representatives(failing(*messages))

    assert (len(chosen), spared) == (len(messages), {})


def test_a_test_that_was_skipped_or_has_no_result_has_not_passed() -> None:
    assert not has_passed(session(attempt("a", "skipped")), "a")
    assert not has_passed(session(), "a")
    assert has_passed(session(attempt("a", "passed")), "a")
    assert not has_passed(session(attempt("a", "failed"), attempt("a", "passed")), "a")


def crashed(**changes: Any) -> PytestSession:
    usual: dict[str, Any] = {
        "kind": RunKind.SUITE,
        "attempts": (an_attempt("passed", "a"), an_attempt("crashed", "b")),
        "collected": ("a", "b", "c", "d"),
        "signal": "SIGSEGV",
    }
    return PytestSession(**(usual | changes))


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({}, ("c", "d")),
        ({"maxfail": 2}, ("c", "d")),
        ({"maxfail": 1}, ()),
        # An end in order.
        ({"finished": 1}, ()),
        # It would come again: it was before the first test.
        ({"attempts": ()}, ()),
    ],
)
def test_after_a_crash_the_tests_not_tried_are_left_unless_it_ends_the_suite(
    changes: dict[str, Any], left: tuple[str, ...]
) -> None:
    assert rest_after([crashed(**changes)]) == left


class RunsOfOneTest:
    """In place of processes: the n-th run of the test `b` ends as the n-th of `endings`, over and over."""

    is_interrupted = False

    def __init__(self, endings: str) -> None:
        self._endings = itertools.cycle(endings)

    def run(self, plan: PytestPlan) -> PytestSession:
        outcome = PytestOutcome.FAILED if next(self._endings) == "F" else PytestOutcome.PASSED
        ended = TestAttempt(run=plan.kind, test="b", outcome=outcome, pid=1)
        return PytestSession(kind=plan.kind, attempts=(ended,), order={1: ("a", "b")})


@pytest.mark.parametrize("endings", ["FP", "FPP", "FFP", "FPF", "FPPP", "FPPF", "FPPFP"])
def test_a_failure_that_comes_every_so_many_runs_is_flaky(endings: str) -> None:
    runs = RunsOfOneTest(endings)
    plan = a_plan()
    suite = runs.run(plan)
    reruns = Reruns(cast("PytestRunner", runs), plan, 1000.0, reruns=2, tell=lambda _: None)

    reruns.run(suite_failures([suite]))

    attempts = [each for ran in (suite, *reruns.sessions) for each in ran.attempts]
    judged = judge("b", tuple(attempts), Circumstances())
    assert (judged.verdict, judged.order_dependent) == (Verdict.FLAKY, False), judged.why
