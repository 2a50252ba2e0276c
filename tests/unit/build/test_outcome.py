# SPDX-License-Identifier: Apache-2.0
"""The test cases of a build, for readers that count them."""

from typing import Any

import msgspec
from msgspec.structs import replace

from ci_doctor.build.findings import GROUP, MOST_CASES, cases_of, facts_of
from ci_doctor.build.merge import merge
from ci_doctor.model.cause import LogLine
from ci_doctor.model.facts.build import BuildFacts, JobRecord, RetryWorth
from ci_doctor.model.outcome import Case, CaseAttempt, CaseOutcome
from tests.support.builds import (
    ASSERTION,
    BUILD_URL,
    FULL_DISK,
    a_job,
    a_red_build,
    a_report_of,
    many_jobs,
    material_of,
    moment,
)
from tests.support.growth import assert_linear

DISK: dict[str, Any] = {"verdict": "infra", "cause": FULL_DISK}


def cases(*jobs: tuple[JobRecord, tuple[Case, ...]]) -> list[Case]:
    reports = [a_report_of(job, cases=own) for job, own in jobs]
    return list(cases_of(merge(material_of(*(job for job, _ in jobs), reports=reports))))


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


def facts(*records: JobRecord) -> BuildFacts:
    return facts_of(merge(material_of(*records)))


def test_a_red_build_has_its_worst_steps_first_with_each_retry_judged_and_each_cause() -> None:
    build = facts(*a_red_build())

    # In their order: a retry is judged at the attempt before it.
    assert [(step.name, [job.retry for job in step.attempts]) for step in build.build_steps] == [
        ("answers", [RetryWorth.IN_VAIN, None]),
        ("kv-cache", [None]),
        ("latency", [RetryWorth.HID_A_FAILURE, None]),
        ("lint", [None]),
        ("restart", [RetryWorth.HELPED, None]),
        ("unit", [None]),
    ]
    named = {job.cause for step in build.build_steps for job in step.attempts} - {None}
    assert named == {cause.fingerprint for cause in build.causes}
    assert [cause.steps for cause in build.causes] == [
        ("answers",),
        ("kv-cache", "restart"),
        ("latency",),
    ]
    assert (build.began_at, build.ended_at) == (moment(0), moment(1010))
    assert (build.pipeline, build.build, build.build_url) == ("serving", 812, BUILD_URL)


def test_lines_of_a_megabyte_are_cut() -> None:
    long = "x" * 1_000_000
    cause = msgspec.structs.replace(
        ASSERTION, fingerprint=long, title=long, place=LogLine(file=long, message=long), remedy=long
    )
    about = {"step": long, "agent": long, "queue": long, "branch": long, "pipeline": long}
    record = a_job(verdict="failed", summary=long, label=long, cause=cause, about=about)

    build = facts(record)

    assert len(msgspec.json.encode(build)) < 20_000
    assert build.build_steps[0].attempts[0].cause == build.causes[0].fingerprint


def test_times_that_are_none_and_an_end_before_the_begin_are_unknown() -> None:
    hostile = a_job(began_at="2026-13-45T99:00:00Z", ended_at="<script>")
    for job, began_at in ((hostile, None), (a_job(seconds=-5), moment(0))):
        (step,) = facts(job).build_steps

        assert (step.attempts[0].began_at, step.attempts[0].ended_at) == (began_at, None)


def test_the_cost_of_a_merge_grows_with_its_jobs_alone() -> None:
    def act(size: int) -> None:
        facts(*many_jobs(size, attempts=2))

    assert_linear(act, 60)
