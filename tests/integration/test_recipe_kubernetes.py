# SPDX-License-Identifier: Apache-2.0
"""The recipe for agent-stack-k8s, in a stand-in for its pods."""

import json
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tests.support.bootstrap import Job
from tests.support.pipeline_steps import command_of, plugin_of, retried, step_of
from tests.support.plugin_workplace import JOB_ID, REPOSITORY, Workplace
from tests.support.stand_in_pod import CheckoutContainer, CommandContainer, Pod

pytestmark = [pytest.mark.integration, pytest.mark.nightly]
RECIPE = REPOSITORY / "examples" / "recipes" / "kubernetes"
PIPELINE = RECIPE / "pipeline.yml"
WITHOUT = RECIPE / "without-ci-doctor.yml"
POST_CHECKOUT = "#!/bin/bash\nexport OF_THE_CHECKOUT=1\necho 'weights' > from-the-checkout\n"


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    workplace = Workplace(tmp_path)
    workplace.link("sh")
    for file in RECIPE.iterdir():
        shutil.copy(file, workplace.checkout)
    hook = workplace.checkout / ".buildkite" / "hooks" / "post-checkout"
    hook.parent.mkdir(parents=True)
    hook.write_text(POST_CHECKOUT)
    return workplace


def pod_of(workplace: Workplace, pipeline: Path) -> Pod:
    """A pod for the step `serving`: the checkout container has the images that the stack brings, without ci-doctor."""
    checkout = _given(workplace, pipeline)
    checkout["environment"]["PATH"] = "/usr/bin:/bin"
    return Pod(CheckoutContainer(**checkout), CommandContainer(**_given(workplace, pipeline)))


def _given(workplace: Workplace, pipeline: Path) -> dict[str, Any]:
    step = step_of(pipeline, "serving")
    job = workplace.job(command_of(step), plugin_of(step, "ci-doctor"))
    return {each.name: getattr(job, each.name) for each in fields(Job) if each.init}


def test_the_hooks_run_in_the_commands_container_and_prepare_it(workplace: Workplace) -> None:
    workplace.real_ci_doctor()
    pod = pod_of(workplace, PIPELINE)

    assert pod.run() == 0, pod.command.log
    assert [phase for phase, _ in pod.checkout.phases] == ["post-checkout"]
    assert "CUBLAS_WORKSPACE_CONFIG is :4096:8" in pod.command.log
    report = workplace.checkout / "ci-doctor-report" / JOB_ID / "launch" / "report.json"
    assert json.loads(report.read_text())["verdict"] == "pass"
    # Of the checkout's container a file remains, and no variable.
    assert (workplace.checkout / "from-the-checkout").exists()
    assert "OF_THE_CHECKOUT" in pod.checkout.environment
    assert "OF_THE_CHECKOUT" not in pod.command.environment


def test_an_image_without_ci_doctor_ends_the_job_before_its_command(workplace: Workplace) -> None:
    """The variant that must fail."""
    python = workplace.bin / "python3"
    python.write_text("#!/bin/sh\nexit 1\n")  # one that cannot import it
    pod = pod_of(workplace, WITHOUT)

    assert pod.run() == 2, pod.command.log
    assert "ci-doctor: not found: no ci-doctor on PATH" in pod.command.log
    assert "or on the agent or in the step's image" in pod.command.log
    assert "client in" not in pod.command.log
    assert not retried(step_of(PIPELINE, "serving"), 2)


def test_a_pod_that_cannot_start_is_retried_and_a_failure_is_not() -> None:
    rules = step_of(PIPELINE, "serving")["retry"]["automatic"]

    assert {"signal_reason": "stack_error", "limit": 1} in rules
    assert not retried(step_of(PIPELINE, "serving"), 1)
    assert retried(step_of(PIPELINE, "serving"), 75)


def test_each_container_without_a_command_runs_the_step() -> None:
    """One command container: two would run the step's command twice."""
    for pipeline in (PIPELINE, WITHOUT):
        patch = plugin_of(step_of(pipeline, "serving"), "kubernetes")["podSpecPatch"]
        assert [each["name"] for each in patch["containers"]] == ["container-0"]
