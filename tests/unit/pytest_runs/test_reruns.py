# SPDX-License-Identifier: Apache-2.0
"""What is run again after a failure."""

from ci_doctor.pytest_runs.attempt import PytestOutcome, PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.reruns import has_passed, orders_to_repeat, suite_failures


def attempt(name: str, outcome: str, pid: int | None = 7) -> TestAttempt:
    return TestAttempt(test=name, outcome=PytestOutcome(outcome), pid=pid)


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


def test_the_first_test_of_a_process_has_no_order_to_repeat() -> None:
    assert orders_to_repeat(suite_failures([session(attempt("a", "failed"), p7=("a",))])) == ()


def test_a_test_without_a_result_has_not_passed() -> None:
    assert not has_passed(session(), "a")
    assert has_passed(session(attempt("a", "passed")), "a")
    assert not has_passed(session(attempt("a", "failed"), attempt("a", "passed")), "a")
