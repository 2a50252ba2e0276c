# SPDX-License-Identifier: Apache-2.0
"""The test cases of a build, for readers that count them."""

from typing import Any

from msgspec.structs import replace

from ci_doctor.build.collect import Material, RecordFile, ReportFile
from ci_doctor.build.merge import merge
from ci_doctor.build.outcome import GROUP, MOST_CASES, cases_of
from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.outcome import Case, CaseAttempt, CaseOutcome
from tests.support.builds import FULL_DISK, a_job, a_report_of

DISK: dict[str, Any] = {"verdict": "infra", "cause": FULL_DISK}


def cases(*jobs: tuple[JobRecord, tuple[Case, ...]]) -> list[Case]:
    records = [RecordFile(place=f"{job.about.job}/job.json", record=job) for job, _ in jobs]
    reports = [
        ReportFile(
            place=f"{job.about.job}/correctness/report.json", report=a_report_of(job, cases=own)
        )
        for job, own in jobs
    ]
    return list(cases_of(merge(Material(records=tuple(records), reports=tuple(reports)))))


def a_case(outcome: CaseOutcome, **changes: Any) -> Case:
    return replace(Case(group="requests", name="r1", outcome=outcome, duration_s=1.0), **changes)


PASSED = a_case(CaseOutcome.PASSED)
FAILED = a_case(CaseOutcome.FAILED, message="it differs")


def test_a_step_is_a_case_with_all_its_attempts() -> None:
    first, last = a_job("e2e", **DISK), a_job("e2e", attempt=1)

    (step,) = cases((first, ()), (last, ()))

    assert (step.group, step.name, step.outcome) == (GROUP, "e2e", CaseOutcome.PASSED)
    assert [(each.outcome, each.job) for each in step.attempts] == [
        (CaseOutcome.ERROR, first.about.job),
        (CaseOutcome.PASSED, last.about.job),
    ]
    assert step.attempts[0].message == "infra: e2e ended with 75"


def test_the_cases_of_the_last_attempt_have_their_executions_in_all_of_them() -> None:
    first, last = a_job("e2e", verdict="failed"), a_job("e2e", attempt=1)

    step, own = cases((first, (FAILED,)), (last, (PASSED,)))

    assert step.name == "e2e"
    assert (own.group, own.name, own.outcome) == ("e2e.requests", "r1", CaseOutcome.PASSED)
    assert [(each.outcome, each.job) for each in own.attempts] == [
        (CaseOutcome.FAILED, first.about.job),
        (CaseOutcome.PASSED, last.about.job),
    ]


def test_the_attempts_within_a_report_stay_apart() -> None:
    attempts = (
        CaseAttempt(outcome=CaseOutcome.FAILED),
        CaseAttempt(outcome=CaseOutcome.PASSED),
    )

    _, own = cases((a_job(), (replace(PASSED, attempts=attempts),)))

    assert [each.outcome for each in own.attempts] == [CaseOutcome.FAILED, CaseOutcome.PASSED]


def test_one_execution_has_no_attempts() -> None:
    step, own = cases((a_job(), (PASSED,)))

    assert step.attempts == own.attempts == ()


def test_steps_and_failures_are_kept_if_there_are_too_many_cases() -> None:
    many = tuple(a_case(CaseOutcome.PASSED, name=f"r{number}") for number in range(MOST_CASES))

    kept = cases((a_job(verdict="failed"), (*many, FAILED)))

    assert len(kept) == MOST_CASES
    assert kept[0].group == GROUP
    assert kept[1].outcome is CaseOutcome.FAILED
