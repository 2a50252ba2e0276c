# SPDX-License-Identifier: Apache-2.0
"""A step whose command runs in a container of the docker plugin: what of ci-doctor's reaches it, and what comes back."""

import json
import sys

import pytest

from tests.support import stand_in_docker
from tests.support.bootstrap import Job, StepPlugin
from tests.support.plugin_workplace import JOB_ID, Workplace

pytestmark = pytest.mark.integration
LIST = "CI_DOCTOR_VARIABLES"


def in_a_container(workplace: Workplace, command: str, **options: object) -> Job:
    workplace.link("ln")
    docker = StepPlugin(
        stand_in_docker.make(workplace.folder),
        {"image": "test", "workdir": str(workplace.folder / "inside"), **options},
        "docker#v5.13.0",
    )
    job = workplace.job(command, {"determinism": "default", "pythons": sys.executable})
    job.plugins_after = [docker]
    return job


def test_the_exports_reach_the_container_and_its_reports_come_back(real: Workplace) -> None:
    job = in_a_container(
        real, "ci-doctor explain 75 >/dev/null; env; exit 3", **{"env-propagation-list": LIST}
    )

    assert job.run() == 3, job.log
    assert "CUBLAS_WORKSPACE_CONFIG=:4096:8" in job.log
    assert f"CI_DOCTOR_REPORT_DIR={real.folder}/inside/ci-doctor-report/{JOB_ID}" in job.log
    assert f"BUILDKITE_JOB_ID={JOB_ID}" in job.log
    assert "CI_DOCTOR_HOST_REPORT_DIR=" not in job.log
    assert "runs in a container" not in job.log
    reports = real.checkout / "ci-doctor-report" / JOB_ID
    assert json.loads((reports / "explain" / "report.json").read_text())["about"]["job"] == JOB_ID
    # The hooks after the command use the host's directory: the job's record is there.
    assert (reports / "job.json").exists()


def test_what_does_not_reach_the_container_is_one_line_before_the_command(
    real: Workplace,
) -> None:
    job = in_a_container(real, "env", **{"propagate-environment": True})

    assert job.run() == 0, job.log
    assert "CI_DOCTOR_REPORT_DIR=" not in job.log.rpartition("Running plugin docker command")[2]
    lines = [line for line in job.log.splitlines() if "runs in a container" in line]
    assert len(lines) == 1
    assert lines[0].endswith(f"give that plugin `env-propagation-list: {LIST}`")
