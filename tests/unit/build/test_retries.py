# SPDX-License-Identifier: Apache-2.0
"""Whether a retry made sense, case by case."""

from typing import Any

import pytest

from ci_doctor.build.collect import Material, RecordFile
from ci_doctor.build.merge import merge
from ci_doctor.build.steps import worths_of_retries
from ci_doctor.model.facts.build import RetryWorth
from tests.support.builds import ASSERTION, FULL_DISK, a_job

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
    records = (a_job(**first), a_job(attempt=1, **then))
    material = Material(
        records=tuple(
            RecordFile(place=f"{each.about.job}/job.json", record=each) for each in records
        )
    )

    (step,) = merge(material).steps

    assert list(worths_of_retries(step).values()) == ([] if worth is None else [worth])
