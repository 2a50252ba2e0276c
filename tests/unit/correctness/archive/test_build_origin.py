# SPDX-License-Identifier: Apache-2.0
"""Tests of the build that archived starts come from."""

# SPDX-License-Identifier: Apache-2.0
# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.correctness.archive.build_origin import (
    BuildOrigin,
    build_of,
    build_origin,
    origin_of_run,
)
from ci_doctor.correctness.evidence.run_identity import identify, read_run, write_run
from ci_doctor.correctness.settings import ExperimentPlan
from tests.unit.correctness.plans import planned

MAIN = {
    "BUILDKITE": "true",
    "BUILDKITE_JOB_ID": "0190-j",
    "BUILDKITE_BRANCH": "main",
    "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main",
    "BUILDKITE_PULL_REQUEST": "false",
    "BUILDKITE_BUILD_NUMBER": "42",
    "BUILDKITE_COMMIT": "0123456789abcdef",
    "BUILDKITE_BUILD_URL": "https://buildkite.com/o/p/builds/42",
}


def test_a_build_is_named_so_that_a_person_finds_it() -> None:
    assert build_of(MAIN) == "build 42 of main at 0123456789ab, https://buildkite.com/o/p/builds/42"
    assert build_of({}) == "a local run"


COMMIT = "a" * 40
BASE = "b" * 40


def test_jobs_of_one_build_and_their_retries_are_one_build() -> None:
    origins = []
    for job in ("0190-j", "0190-k"):
        environment = JobEnvironment(job_id=job, build_id="0190-b", build_number=42, commit=COMMIT)
        origins.append(build_origin(environment, "host 1", None, BASE))
    assert origins[0] == BuildOrigin(
        id="0190-b", number=42, job="0190-j", commit=COMMIT, baseline_commit=BASE
    )
    assert origins[1].id == origins[0].id


def test_outside_buildkite_the_run_is_the_build() -> None:
    assert build_origin(None, "host 1", COMMIT, COMMIT) == BuildOrigin(
        id="host 1", commit=COMMIT, baseline_commit=COMMIT
    )


@pytest.mark.parametrize("commit", ["HEAD", "main", "", None, "a" * 12, "../" + "a" * 40])
def test_what_is_no_commit_is_unknown(commit: str | None) -> None:
    job = JobEnvironment(job_id="0190-j", commit=commit)
    assert build_origin(job, "host 1", COMMIT, None).commit == COMMIT
    origin = build_origin(job, "host 1", commit, commit)
    assert (origin.id, origin.commit, origin.baseline_commit) == ("0190-j", None, None)


TEXT = """
[services.base]
command = "sleep {port}"
cwd = "base"
[correctness]
baseline = { services = ["base"] }
candidate = { command = "sleep {port}" }
"""
JOB = {
    "BUILDKITE": "true",
    "BUILDKITE_JOB_ID": "0190-j",
    "BUILDKITE_BUILD_ID": "0190-b",
    "BUILDKITE_COMMIT": "HEAD",
}


def plan_of(directory: Path) -> ExperimentPlan:
    (directory / "base").mkdir(exist_ok=True)
    return planned(directory, TEXT)


def test_a_run_elsewhere_is_its_host_and_its_beginning(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    write_run(plan.directory, identify(plan))
    origin = origin_of_run(plan, COMMIT)
    assert origin is not None
    assert origin.id == f"{os.uname().nodename} {read_run(plan.directory).started_at}"
    assert (origin.commit, origin.baseline_commit) == (COMMIT, None)


def test_a_job_is_its_build_and_the_baselines_repository_has_a_commit_of_its_own(
    tmp_path: Path,
) -> None:
    head = tmp_path / "base" / ".git" / "HEAD"
    head.parent.mkdir(parents=True)
    head.write_text(BASE + "\n")
    plan = replace(plan_of(tmp_path), environment=JOB)
    write_run(plan.directory, identify(plan))
    origin = origin_of_run(plan, COMMIT)
    assert origin is not None
    assert (origin.id, origin.job) == ("0190-b", "0190-j")
    assert (origin.commit, origin.baseline_commit) == (COMMIT, BASE)


def test_a_run_that_nothing_describes_is_unknown_and_no_error(tmp_path: Path) -> None:
    assert origin_of_run(plan_of(tmp_path), COMMIT) is None
