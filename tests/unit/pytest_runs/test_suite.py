# SPDX-License-Identifier: Apache-2.0
"""What is left to run after a crash."""

from typing import Any

from ci_doctor.pytest_runs.attempt import PytestOutcome, PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.stages import rest_after


def crashed(**changes: Any) -> PytestSession:
    attempts = (
        TestAttempt(test="a", outcome=PytestOutcome.PASSED),
        TestAttempt(test="b", outcome=PytestOutcome.CRASHED),
    )
    usual: dict[str, Any] = {
        "kind": RunKind.SUITE,
        "attempts": attempts,
        "collected": ("a", "b", "c", "d"),
        "signal": "SIGSEGV",
    }
    return PytestSession(**(usual | changes))


def test_after_a_crash_the_tests_not_tried_are_left() -> None:
    assert rest_after([crashed()]) == ("c", "d")


def test_after_an_end_in_order_nothing_is_left() -> None:
    assert rest_after([crashed(finished=1)]) == ()


def test_a_crash_before_the_first_test_would_come_again() -> None:
    assert rest_after([crashed(attempts=())]) == ()


def test_a_crash_that_used_up_maxfail_ends_the_suite() -> None:
    assert rest_after([crashed(maxfail=1)]) == ()
    assert rest_after([crashed(maxfail=2)]) == ("c", "d")
