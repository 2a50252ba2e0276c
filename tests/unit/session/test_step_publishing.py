# SPDX-License-Identifier: Apache-2.0
"""What a job publishes holds no secret, and takes less time than its hook has."""

import re
from pathlib import Path

import pytest

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.buildkite.job_end import JobEnd
from ci_doctor.commands.plugin import pre_exit
from ci_doctor.session.publishing import budget_s, step_shown

HOOK = Path(__file__).parents[3] / "buildkite_plugins/ci-doctor/hooks/pre-exit"


def test_publishing_takes_less_time_than_the_hook_gives_it() -> None:
    limit = re.search(r"CI_DOCTOR_HOOK_SECONDS:-(\d+)", HOOK.read_text())

    assert limit is not None
    assert budget_s(None) < pre_exit._LIMIT_S < float(limit[1])


def test_the_command_of_a_step_without_the_plugin_shows_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "s3cr3tvalue-abcdef")
    job = JobEnvironment(job_id="1", command="deploy --token s3cr3tvalue-abcdef")
    end = JobEnd(has_run=True, failures=(1,), command_status=1)

    shown = step_shown([], job, end, None)(())

    assert shown is not None
    assert "deploy --token" in shown.body
    assert "s3cr3tvalue" not in shown.body
