# SPDX-License-Identifier: Apache-2.0
"""The record of a job that the plugin has not recorded, and its words for later attempts."""

import pytest
from msgspec.structs import replace

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.buildkite.job_end import JobEnd
from ci_doctor.model.cause import Cause, LogLine
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.session.step_record import record_of, said_of, with_others
from tests.support.builders import a_report

JOB = JobEnvironment(job_id="0190-j", step_key="e2e", retry_count=1, build_url="https://b/1")


def test_a_command_that_still_runs_has_no_status() -> None:
    record = record_of([a_report(Verdict.REGRESSION)], JOB)

    assert (record.verdict, record.command_status, record.about.attempt) == ("regression", None, 1)


def test_a_command_that_failed_behind_its_report_is_failed() -> None:
    end = JobEnd(has_run=True, failures=(3,), command_status=3)

    record = record_of([a_report()], JOB, end)

    assert (record.verdict, record.command_status, record.exit_status) == ("failed", 3, 3)


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        ([], "flaky"),
        ([a_report()], "flaky"),
        ([a_report(Verdict.INFRA)], "infra"),
        ([a_report(), a_report(None)], "error"),
    ],
)
def test_a_worse_report_from_elsewhere_decides(others: list[Report], verdict: str) -> None:
    record = record_of([a_report(Verdict.FLAKY)], JOB)

    assert with_others(record, others).verdict == verdict


def test_what_an_attempt_said_is_its_verdict_its_cause_and_its_status() -> None:
    end = JobEnd(has_run=True, failures=(75,), command_status=75)
    record = record_of([], JOB, end)
    cause = Cause(fingerprint="f", title="disk full", place=LogLine(message="No space\nleft"))

    said = said_of(replace(record, cause=cause), [], JOB)

    assert (said.attempt, said.job, said.exit_status) == (1, "0190-j", 75)
    assert (said.verdict, said.cause) == ("failed", "disk full: No space left")
