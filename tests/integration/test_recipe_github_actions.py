# SPDX-License-Identifier: Apache-2.0
"""The recipe for GitHub Actions: its workflow on stand-in machines, with a real server."""

import shutil
from pathlib import Path

import pytest

from tests.support.github_machine import ROOT, install_before, machine
from tests.support.github_runner import JobResult, Runner, run_workflow

pytestmark = pytest.mark.integration
RECIPE = ROOT / "examples" / "recipes" / "github-actions"
WORKFLOW = RECIPE / "correctness.yml"


@pytest.fixture(autouse=True)
def _needs_numpy() -> None:
    pytest.importorskip("numpy")


def checkout(folder: Path) -> Path:
    """The recipe as a machine checks it out, with the example whose server it starts."""
    shutil.copytree(ROOT / "examples" / "tiny-llm", folder / "tiny-llm")
    return Path(shutil.copytree(RECIPE, folder / "recipes" / "github-actions"))


def run(
    folder: Path, *, config: str = "ci-doctor.toml", lacking: tuple[str, ...] = ()
) -> dict[str, JobResult]:
    """The jobs of the workflow; machines of the jobs in `lacking` have no weights."""

    def make_runner(job: str) -> Runner:
        workspace = checkout(folder / job)
        (workspace / config).rename(workspace / "ci-doctor.toml")
        environment = {"WEIGHTS": "/not/there"} if job in lacking else {}
        runner = machine(folder / job, workspace, **environment)
        install_before(runner)
        return runner

    return run_workflow(WORKFLOW.read_text(encoding="utf-8"), make_runner)


def test_a_pass_is_green_with_a_summary_and_artifacts(tmp_path: Path) -> None:
    jobs = run(tmp_path)

    first = jobs["first"]
    assert first.outputs == {"exit-code": "0"}, first.log
    assert "CI_DOCTOR_PREPARED" not in first.log, "nothing says that it was not prepared"
    assert "PASS" in first.summary
    assert "✓" in first.log
    assert "ci-doctor-report/correctness/report.json" in first.artifacts
    assert (jobs["again"].result, jobs["result"].result) == ("skipped", "success")


def test_a_regression_is_red_and_never_runs_again(tmp_path: Path) -> None:
    jobs = run(tmp_path, config="regression.toml")

    first = jobs["first"]
    assert first.outputs == {"exit-code": "1"}, first.log
    assert "::error title=✗ REGRESSION  ci-doctor correctness,file=prompts.jsonl" in first.log
    assert "REGRESSION" in first.summary
    assert (jobs["again"].result, jobs["result"].result) == ("skipped", "failure")
    assert "exit code: 1\n" in jobs["result"].log


def test_an_unfit_machine_is_followed_by_another_one(tmp_path: Path) -> None:
    jobs = run(tmp_path, lacking=("first",))

    assert jobs["first"].outputs == {"exit-code": "75"}, jobs["first"].log
    assert "the weights are not on this runner" in jobs["first"].log
    assert jobs["again"].outputs == {"exit-code": "0"}, jobs["again"].log
    assert jobs["result"].result == "success"


def test_two_unfit_machines_are_red(tmp_path: Path) -> None:
    jobs = run(tmp_path, lacking=("first", "again"))

    assert jobs["again"].outputs == {"exit-code": "75"}
    assert jobs["result"].result == "failure"


def test_a_machine_that_is_lost_is_red(tmp_path: Path) -> None:
    """Its job has no outputs."""
    text = WORKFLOW.read_text(encoding="utf-8").replace(
        "steps.ci-doctor.outputs", "steps.lost.outputs"
    )
    assert text != WORKFLOW.read_text(encoding="utf-8")

    def make_runner(job: str) -> Runner:
        return machine(tmp_path / job, RECIPE, PATH="/usr/bin:/bin")

    result = text.partition("  result:\n")
    gate = "jobs:\n  first: {continue-on-error: true, steps: [{run: 'exit 1', shell: bash}]}\n"
    jobs = run_workflow(
        f"{gate}  again: {{needs: first, steps: []}}\n{result[1]}{result[2]}", make_runner
    )

    assert jobs["result"].result == "failure"
    assert "exit code: none" in jobs["result"].log
