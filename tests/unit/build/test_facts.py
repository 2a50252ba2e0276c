# SPDX-License-Identifier: Apache-2.0
"""The facts of a build, in a size and an order that can be shown."""

from typing import Any

import msgspec

from ci_doctor.build.collect import Material, RecordFile
from ci_doctor.build.merge import MergedBuild, merge
from ci_doctor.build.outcome import facts_of
from ci_doctor.model.cause import LogLine
from ci_doctor.model.facts.build import BuildFacts, RetryWorth
from ci_doctor.model.job_record import JobRecord
from tests.support.builds import ASSERTION, BUILD_URL, a_job, a_red_build, many_jobs, moment
from tests.support.growth import assert_linear


def merged(*records: JobRecord) -> MergedBuild:
    files = [RecordFile(place=f"{each.about.job}/job.json", record=each) for each in records]
    return merge(Material(records=tuple(files)))


def facts(*records: JobRecord) -> BuildFacts:
    return facts_of(merged(*records))


def test_the_worst_steps_come_first_and_the_times_are_those_of_all_jobs() -> None:
    build = facts(*a_red_build())

    assert [step.name for step in build.build_steps] == [
        "answers",
        "kv-cache",
        "latency",
        "lint",
        "restart",
        "unit",
    ]
    assert (build.began_at, build.ended_at) == (moment(0), moment(1010))
    assert (build.pipeline, build.build, build.build_url) == ("serving", 812, BUILD_URL)


def test_each_retry_is_judged_at_the_attempt_before_it() -> None:
    retries = {
        step.name: [job.retry for job in step.attempts]
        for step in facts(*a_red_build()).build_steps
    }

    assert retries == {
        "answers": [RetryWorth.IN_VAIN, None],
        "kv-cache": [None],
        "latency": [RetryWorth.HID_A_FAILURE, None],
        "lint": [None],
        "restart": [RetryWorth.HELPED, None],
        "unit": [None],
    }


def test_each_failed_job_names_its_cause_and_the_causes_name_their_steps() -> None:
    build = facts(*a_red_build())

    named = {job.cause for step in build.build_steps for job in step.attempts} - {None}
    assert named == {cause.fingerprint for cause in build.causes}
    assert [cause.steps for cause in build.causes] == [
        ("answers",),
        ("kv-cache", "restart"),
        ("latency",),
    ]


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


def test_times_that_are_none_are_unknown() -> None:
    hostile: dict[str, Any] = {"began_at": "2026-13-45T99:00:00Z", "ended_at": "<script>"}

    (step,) = facts(a_job(**hostile)).build_steps

    assert (step.attempts[0].began_at, step.attempts[0].ended_at) == (None, None)


def test_an_end_before_the_begin_is_unknown() -> None:
    (step,) = facts(a_job(seconds=-5)).build_steps

    assert (step.attempts[0].began_at, step.attempts[0].ended_at) == (moment(0), None)


def test_the_cost_of_a_merge_grows_with_its_jobs_alone() -> None:
    def act(size: int) -> None:
        facts(*many_jobs(size, attempts=2))

    assert_linear(act, 60)
