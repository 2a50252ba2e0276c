# SPDX-License-Identifier: Apache-2.0
"""Whether a retry made sense, case by case."""

from typing import Any

import pytest

from ci_doctor.build.job_attempt import case_outcome, verdict_of_build, verdict_of_reports
from ci_doctor.build.merge import merge, worths_of_retries
from ci_doctor.model.facts.build import RetryWorth
from ci_doctor.model.outcome import WORST_FIRST, CaseOutcome, Verdict
from tests.support.builders import a_finding, a_report
from tests.support.builds import ASSERTION, FULL_DISK, a_job, material_of

DISK: dict[str, Any] = {"verdict": "infra", "cause": FULL_DISK}
DISK_AS_FAILED: dict[str, Any] = {"verdict": "failed", "cause": FULL_DISK}
WRONG: dict[str, Any] = {"verdict": "failed", "cause": ASSERTION}
UNNAMED: dict[str, Any] = {"verdict": "failed"}
INFRA: dict[str, Any] = {"verdict": "infra"}
CANCELLED: dict[str, Any] = {"verdict": "error", "is_cancelled": True}
PASSED: dict[str, Any] = {"verdict": "pass"}
FLAKY: dict[str, Any] = {"verdict": "flaky"}


@pytest.mark.parametrize(
    ("first", "then", "worth"),
    [
        (DISK, PASSED, RetryWorth.HELPED),
        (DISK, FLAKY, RetryWorth.HELPED),
        (DISK_AS_FAILED, PASSED, RetryWorth.HELPED),
        (INFRA, PASSED, RetryWorth.HELPED),
        (WRONG, PASSED, RetryWorth.HID_A_FAILURE),
        (UNNAMED, PASSED, RetryWorth.HID_A_FAILURE),
        (DISK, DISK, RetryWorth.IN_VAIN),
        (WRONG, WRONG, RetryWorth.IN_VAIN),
        (WRONG, INFRA, RetryWorth.IN_VAIN),
        (DISK, CANCELLED, RetryWorth.UNKNOWN),
        (CANCELLED, PASSED, RetryWorth.UNKNOWN),
        (PASSED, PASSED, None),
        (PASSED, WRONG, None),
    ],
)
def test_a_retry_is_judged_by_both_attempts(
    first: dict[str, Any], then: dict[str, Any], worth: RetryWorth | None
) -> None:
    (step,) = merge(material_of(a_job(**first), a_job(attempt=1, **then))).steps

    assert list(worths_of_retries(step).values()) == ([] if worth is None else [worth])


@pytest.mark.parametrize("word", WORST_FIRST)
def test_only_what_passes_is_green(word: str) -> None:
    is_green = word in {"pass", "flaky"}

    assert (verdict_of_build([word]) in {Verdict.PASS, Verdict.FLAKY}) is is_green
    assert (case_outcome(word) is CaseOutcome.PASSED) is is_green


def test_without_any_verdict_a_build_is_void() -> None:
    assert verdict_of_build([]) is Verdict.VOID


@pytest.mark.parametrize(
    ("command", "changes", "verdict"),
    [
        ("run", {"exit_code": 1}, "error"),
        # The diagnosis of a failure.
        ("diagnose", {"findings": (a_finding(),)}, "error"),
        ("setup-env", {}, "pass"),
    ],
)
def test_a_report_without_a_verdict_is_no_pass_beside_one_if_it_tells_of_a_failure(
    command: str, changes: dict[str, Any], verdict: str
) -> None:
    unjudged = a_report(None, command=command, **{"error": None, "exit_code": 0, **changes})

    assert verdict_of_reports([a_report(Verdict.PASS), unjudged]) == verdict
