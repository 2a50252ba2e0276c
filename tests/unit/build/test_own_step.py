# SPDX-License-Identifier: Apache-2.0
"""What belongs to the job that merges a build: its own attempts, and nobody else's."""

from typing import Any

import pytest

from ci_doctor.build.api_jobs import ApiJob
from ci_doctor.build.current import is_own_api_job, is_own_record
from ci_doctor.buildkite.job import JobEnvironment
from tests.support.builds import a_job

COMMAND = "ci-doctor build publish"


def own_job(**changes: Any) -> JobEnvironment:
    return JobEnvironment(job_id="own", command=COMMAND, **changes)


def is_own(job: JobEnvironment, *, label: str | None, **about: Any) -> bool:
    """Of a record, and of the API's job if that has a name."""
    record = a_job("publish", label=label, command=COMMAND, about={"step": None, **about})
    known = ApiJob(
        job="other",
        step_key=about.get("step"),
        label=label,
        parallel_index=about.get("parallel_index"),
    )
    answer = is_own_record(record, job)
    if label or about.get("step"):
        assert is_own_api_job(known, job) is answer
    return answer


@pytest.mark.parametrize("label", ["report", None])
def test_an_attempt_has_the_key_of_the_job(label: str | None) -> None:
    assert is_own(own_job(step_key="publish", label=label), label="report", step="publish")
    assert not is_own(own_job(step_key="publish", label=label), label="report", step="unit")
    assert not is_own(own_job(step_key="publish", label=label), label="report")


def test_a_parallel_job_of_the_same_step_is_another_one() -> None:
    job = own_job(step_key="e2e", parallel_job=0)

    assert is_own(job, label=None, step="e2e", parallel_index=0)
    assert not is_own(job, label=None, step="e2e", parallel_index=1)


def test_a_job_of_the_same_matrix_is_another_one() -> None:
    assert not is_own(own_job(step_key="e2e", label="py 3.11"), label="py 3.12", step="e2e")


def test_without_a_key_the_label_counts_and_without_both_the_command() -> None:
    assert is_own(own_job(label="report"), label="report")
    assert not is_own(own_job(label="report"), label=None)
    assert not is_own(own_job(), label="report")
    assert is_own(own_job(), label=None)
    assert not is_own_record(a_job("unit", label=None, about={"step": None}), own_job())
