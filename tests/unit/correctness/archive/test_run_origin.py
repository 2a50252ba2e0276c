# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.correctness.archive.run_origin import origin_of_run
from ci_doctor.correctness.evidence.run_identity import identify, read_run, write_run
from ci_doctor.correctness.settings import ExperimentPlan
from tests.unit.correctness.plans import planned

COMMIT = "a" * 40
BASE = "b" * 40
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
    assert origin.commits == (COMMIT,)


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
    assert origin.commits == (COMMIT, BASE)


def test_a_run_that_nothing_describes_is_unknown_and_no_error(tmp_path: Path) -> None:
    assert origin_of_run(plan_of(tmp_path), COMMIT) is None
