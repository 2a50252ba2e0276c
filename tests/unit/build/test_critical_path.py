# SPDX-License-Identifier: Apache-2.0
"""The jobs whose times make up the build's, from times alone."""

from ci_doctor.build.api_jobs import ApiJob
from ci_doctor.build.collect import Material, RecordFile
from ci_doctor.build.merge import critical_path, merge
from ci_doctor.model.job_record import JobRecord
from tests.support.builds import a_job, job_id


def path(*records: JobRecord, queued: dict[str, float] | None = None) -> list[tuple[str, int]]:
    """The steps and attempts on the path; `queued` are seconds in the queue by step."""
    material = Material(
        records=tuple(
            RecordFile(place=f"{each.about.job}/job.json", record=each) for each in records
        )
    )
    api = {
        job_id(key, None, 0): ApiJob(job=job_id(key, None, 0), queued_s=seconds)
        for key, seconds in (queued or {}).items()
    }
    steps = merge(material, api_jobs=api).steps
    names = {
        each.facts.job: (step.key or "", each.facts.attempt)
        for step in steps
        for each in step.attempts
    }
    return [names[job] for job in critical_path(steps)]


def test_it_ends_with_the_job_that_ended_last() -> None:
    assert path(a_job("short", seconds=10), a_job("long", seconds=20)) == [("long", 0)]


def test_before_a_job_is_the_one_that_ended_last_before_it_began() -> None:
    jobs = (
        a_job("build", seconds=100),
        a_job("lint", seconds=30),
        a_job("test", began=102, seconds=50),
    )

    assert path(*jobs) == [("build", 0), ("test", 0)]


def test_before_a_retry_is_its_own_earlier_attempt() -> None:
    jobs = (
        a_job("other", seconds=99),
        a_job("test", seconds=50),
        a_job("test", attempt=1, began=100, seconds=50),
    )

    assert path(*jobs) == [("test", 0), ("test", 1)]


def test_a_job_that_waited_in_the_queue_waited_for_no_other() -> None:
    jobs = (a_job("first", seconds=50), a_job("queued", began=60, seconds=50))

    assert path(*jobs) == [("first", 0), ("queued", 0)]
    assert path(*jobs, queued={"queued": 60.0}) == [("queued", 0)]


def test_clocks_that_differ_by_less_than_a_second_break_no_path() -> None:
    jobs = (a_job("build", seconds=100), a_job("test", began=99.4, seconds=50))

    assert path(*jobs) == [("build", 0), ("test", 0)]


def test_jobs_without_times_or_ids_are_on_no_path() -> None:
    assert path(a_job(ended_at=None), a_job("b", about={"job": None})) == []


def test_short_jobs_at_one_moment_make_no_circle() -> None:
    jobs = [a_job(f"s{place}", seconds=0) for place in range(5)]

    assert len(path(*jobs)) == 1
