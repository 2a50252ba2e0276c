# SPDX-License-Identifier: Apache-2.0
"""The recipe for GitHub Actions: its workflow on stand-in machines, with a real server."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.support.github_machine import ROOT, install_before, machine
from tests.support.github_runner import JobResult, Runner, run_workflow

pytestmark = [pytest.mark.integration, pytest.mark.nightly]
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


def test_a_regression_is_red_and_never_runs_again(tmp_path: Path) -> None:
    jobs = run(tmp_path, config="regression.toml")

    first = jobs["first"]
    assert first.outputs == {"exit-code": "1"}, first.log
    assert "::error title=✗ REGRESSION  ci-doctor correctness,file=prompts.jsonl" in first.log
    assert "REGRESSION" in first.summary
    assert (jobs["again"].result, jobs["result"].result) == ("skipped", "failure")
    assert "exit code: 1\n" in jobs["result"].log


def test_an_unfit_machine_is_followed_by_another_one_whose_pass_has_a_summary_and_artifacts(
    tmp_path: Path,
) -> None:
    jobs = run(tmp_path, lacking=("first",))

    assert jobs["first"].outputs == {"exit-code": "75"}, jobs["first"].log
    assert "the weights are not on this runner" in jobs["first"].log
    again = jobs["again"]
    assert again.outputs == {"exit-code": "0"}, again.log
    assert "not-prepared" not in again.log
    assert "**✓ PASS** `correctness`" in again.summary
    assert "ci-doctor-report/correctness/report.json" in again.artifacts
    assert jobs["result"].result == "success"


@pytest.mark.parametrize(
    ("codes", "again", "result"),
    [
        pytest.param({"first": "0"}, "skipped", "success", id="a pass"),
        pytest.param({"first": "1"}, "skipped", "failure", id="a regression"),
        pytest.param({"first": "86"}, "skipped", "failure", id="no evidence"),
        pytest.param({"first": "75", "again": "0"}, "success", "success", id="another machine"),
        pytest.param({"first": "75", "again": "1"}, "failure", "failure", id="75 and a regression"),
        pytest.param({"first": "75", "again": "75"}, "failure", "failure", id="two machines"),
        pytest.param({"first": "75"}, "failure", "failure", id="the second machine is lost"),
        pytest.param({}, "skipped", "failure", id="the machine is lost"),
    ],
)
def test_the_exit_codes_of_both_machines_decide(
    codes: dict[str, str], again: str, result: str, tmp_path: Path
) -> None:
    """The workflow, with steps that end with these codes. A machine that is lost has no output."""
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    for name in ("first", "again"):
        code = codes.get(name)
        script = f'echo exit-code={code} >>"$GITHUB_OUTPUT"; exit {code}' if code else "exit 1"
        step = {"id": "ci-doctor", "shell": "bash", "run": script}
        workflow["jobs"][name]["steps"] = [step]

    jobs = run_workflow(
        yaml.safe_dump(workflow, sort_keys=False), lambda job: machine(tmp_path / job, tmp_path)
    )

    assert (jobs["again"].result, jobs["result"].result) == (again, result), jobs["result"].log
