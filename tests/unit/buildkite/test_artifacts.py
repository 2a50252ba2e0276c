# SPDX-License-Identifier: Apache-2.0
"""Which artifacts are downloaded in one call, which one by one, and which not at all."""

import pytest

from ci_doctor.buildkite.artifacts import (
    Artifact,
    DownloadLimits,
    DownloadPlan,
    is_safe,
    plan_download,
)

LIMITS = DownloadLimits(file_bytes=100, all_bytes=250, files=10)


def an_artifact(path: str = "j1/job.json", job: str = "j1", size: int = 10) -> Artifact:
    return Artifact(job=job, path=path, size=size)


def plan(
    *artifacts: Artifact, name: str = "job.json", limits: DownloadLimits = LIMITS
) -> DownloadPlan:
    return plan_download(name, artifacts, limits, own_job="own")


FIRST, SECOND = (an_artifact("out/job.json", job) for job in ("j1", "j2"))
OTHER = an_artifact("j3/job.json", "j3")


@pytest.mark.parametrize(
    ("files", "whole", "by_itself"),
    [
        # With a path of its own, in one call; with one path, job by job.
        ((FIRST, OTHER), (FIRST, OTHER), ()),
        ((FIRST, SECOND, OTHER), (OTHER,), (FIRST, SECOND)),
        ((FIRST, an_artifact("out/job.json", "own")), (), (FIRST,)),
        # Uploaded twice by one job.
        ((FIRST, FIRST), (FIRST,), ()),
    ],
)
def test_artifacts_with_paths_of_their_own_are_fetched_in_one_call(
    files: tuple[Artifact, ...], whole: tuple[Artifact, ...], by_itself: tuple[Artifact, ...]
) -> None:
    planned = plan(*files)

    assert (planned.whole, planned.by_itself, planned.problems) == (whole, by_itself, ())


def test_this_jobs_own_files_and_the_builds_report_are_left_out_silently() -> None:
    planned = plan(
        an_artifact("own/report.json", "own"),
        an_artifact("ci-doctor-build/report.json"),
        an_artifact("j1/not-report.json"),
        name="report.json",
    )

    assert planned == DownloadPlan(name="report.json")


def test_a_job_that_calls_its_folder_as_the_builds_report_is_called_hides_nothing() -> None:
    files = (
        an_artifact("ci-doctor-build/j1/report.json"),
        an_artifact("j2/ci-doctor-build/report.json"),
    )

    assert plan(*files, name="report.json").whole == files
    assert plan(an_artifact("ci-doctor-build/job.json")).whole


@pytest.mark.parametrize(
    "path",
    [
        "../job.json",
        "a/../../job.json",
        "/etc/job.json",
        "-x/job.json",
        "a//job.json",
        "a\\..\\..\\x/job.json",
        "a\n/job.json",
        "\x1b[2J/job.json",
        "a" * 1000 + "/job.json",
    ],
)
def test_an_artifact_with_a_hostile_path_is_named_and_not_fetched(path: str) -> None:
    good = an_artifact()

    planned = plan(good, an_artifact(path, "j2"))

    # Not in one call, which would fetch the other one, too.
    assert (planned.whole, planned.by_itself) == ((), (good,))
    assert len(planned.problems) == 1
    assert "\n" not in planned.problems[0]
    assert "\x1b" not in planned.problems[0]


def test_a_job_id_that_is_a_path_is_refused() -> None:
    assert not is_safe(an_artifact(job="../../x"))
    assert not is_safe(an_artifact(job=""))


def test_what_is_beyond_the_limits_is_named_and_the_small_files_are_fetched() -> None:
    small = [an_artifact(f"j{n}/job.json", f"j{n}", size=90) for n in range(2)]
    huge = an_artifact("j8/job.json", "j8", size=101)
    last = an_artifact("j9/job.json", "j9", size=95)

    planned = plan(huge, last, *small)

    assert planned.whole == ()
    assert planned.by_itself == tuple(small)
    (problem,) = planned.problems
    assert "j8/job.json" in problem
    assert "j9/job.json" in problem


def test_many_problems_are_counted() -> None:
    hostile = [an_artifact(f"../{n}/job.json") for n in range(12)]

    (problem,) = plan(*hostile).problems

    assert problem.endswith("and 7 more")
