# SPDX-License-Identifier: Apache-2.0
"""The recipe for Buildkite's docker plugin: hooks on the host, the command in a stand-in for a container."""

import json
import shutil
from pathlib import Path

import pytest

from tests.integration.test_plugin_robust import can_mount
from tests.support import stand_in_docker
from tests.support.bootstrap import Job, StepPlugin
from tests.support.pipeline_steps import command_of, plugin_of, retried, step_of
from tests.support.plugin_workplace import JOB_ID, REPOSITORY, Workplace

pytestmark = [pytest.mark.integration, pytest.mark.nightly]
RECIPE = REPOSITORY / "examples" / "recipes" / "docker-plugin"
PIPELINE = RECIPE / "pipeline.yml"
UNPREPARED = RECIPE / "unprepared.yml"


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    workplace = Workplace(tmp_path)
    workplace.real_ci_doctor()
    for program in ("ln", "sh", "unshare", "mount"):
        workplace.link(program)
    for file in RECIPE.iterdir():
        shutil.copy(file, workplace.checkout)
    (tmp_path / "of-the-host").write_text("")
    return workplace


def job_of(workplace: Workplace, pipeline: Path, key: str, **options: object) -> Job:
    """A job of the step `key`; `options` are set in its docker plugin, too."""
    step = step_of(pipeline, key)
    inside = Path("/mnt/workdir") if can_mount() else workplace.folder / "inside"
    hides = workplace.folder if can_mount() else None
    docker = StepPlugin(
        stand_in_docker.make(workplace.folder, hides=hides),
        {**plugin_of(step, "docker#"), "workdir": str(inside), **options},
        "docker#v5.13.0",
    )
    job = workplace.job(command_of(step), plugin_of(step, "ci-doctor"))
    job.plugins_after = [docker]
    return job


def test_the_command_is_prepared_in_the_container_and_its_reports_come_back(
    workplace: Workplace,
) -> None:
    job = job_of(workplace, PIPELINE, "serving")

    assert job.run() == 0, job.log
    assert ": CUBLAS_WORKSPACE_CONFIG is :4096:8" in job.log.partition("client in ")[2]
    report = workplace.checkout / "ci-doctor-report" / JOB_ID / "launch" / "report.json"
    assert json.loads(report.read_text())["verdict"] == "pass"
    assert "runs in a container" not in job.log


def test_without_the_list_the_command_ends_before_it_starts_anything(workplace: Workplace) -> None:
    """The variant that must fail."""
    job = job_of(workplace, UNPREPARED, "serving")

    assert job.run() == 1, job.log
    assert "it gets none of the variables that ci-doctor exports" in job.log
    assert "give that plugin `env-propagation-list: CI_DOCTOR_VARIABLES`" in job.log
    assert "setup-env/not-prepared" in job.log
    assert "client in" not in job.log
    assert not retried(step_of(UNPREPARED, "serving"), 1)


def test_what_the_command_printed_in_the_container_decides_the_status_on_the_host(
    workplace: Workplace,
) -> None:
    job = job_of(workplace, PIPELINE, "tests", environment=["OUTAGE=1"])

    assert job.run() == 75, job.log
    assert ("command", 3) in job.phases, "the container's own status reached the host"
    assert "Read timed out" in job.log
    assert retried(step_of(PIPELINE, "tests"), 75)
    assert not retried(step_of(PIPELINE, "tests"), 3)


@pytest.mark.skipif(not can_mount(), reason="no user namespace can be made")
def test_the_container_sees_what_is_mounted_and_nothing_else(workplace: Workplace) -> None:
    """The stand-in, not the recipe: a log outside of the checkout never reaches the host."""
    job = job_of(workplace, PIPELINE, "tests")
    host = workplace.folder / "of-the-host"
    job.environment["BUILDKITE_COMMAND"] = f"cat client.sh; echo x > ../outside.log; cat '{host}'"

    assert job.run() == 1, job.log
    assert "Stands for the tests of a server" in job.log
    assert f"{host}: No such file" in job.log
    assert not (workplace.folder / "outside.log").exists()
