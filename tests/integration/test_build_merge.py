# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor build merge` as people call it: folders of artifacts in, one report out."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.model.facts.build import JobRecord
from tests.support import stand_in_agent
from tests.support.builds import (
    BUILD_URL,
    a_job,
    a_red_build,
    job_id,
    moment,
    write_build,
)
from tests.support.cli import ROOT, Ran, inside
from tests.support.stand_in_api import TOKEN, running_api

pytestmark = pytest.mark.integration
EXAMPLE = ROOT / "examples" / "build"


def merge_in_a_job(folder: Path, *words: str, **more: str) -> Ran:
    """`--current` in a job of step `publish`, with the stand-in agent of `folder`; `more` variables."""
    environ = {
        **more,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "BUILDKITE": "true",
        "BUILDKITE_JOB_ID": job_id("publish"),
        "BUILDKITE_STEP_KEY": "publish",
    }
    return inside("build", "merge", "--current", *words, cwd=folder, env=environ)


def api_job(job: JobRecord) -> dict[str, Any]:
    """The REST API's view of `job`, which waited for seven seconds and passed."""
    return {
        "id": job.about.job,
        "type": "script",
        "name": job.label,
        "step_key": job.about.step,
        "state": "passed",
        "exit_status": 0,
        "runnable_at": moment(-7),
        "started_at": moment(0),
        "finished_at": moment(40),
    }


def report_in(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def test_the_example_is_merged_as_its_readme_says(tmp_path: Path) -> None:
    ran = inside(
        "build", "merge", "reports", "--expect", "lint", "--report-dir", tmp_path, cwd=EXAMPLE
    )

    assert ran.code == 1, ran
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    shown = readme.split("```console\n", 1)[1].split("…\n```", 1)[0].splitlines()[1:]
    # The first line has the time that it took.
    assert ran.out.splitlines()[1 : len(shown)] == shown[1:], ran
    report = report_in(tmp_path)
    assert report["about"]["build_url"] == BUILD_URL
    assert [cause["jobs"] for cause in report["facts"]["causes"]] == [2, 2, 1]
    assert (tmp_path / "report.html").exists()
    attempts = (tmp_path / "attempts.xml").read_text(encoding="utf-8")
    assert attempts.count('name="restart"') == 2


def test_secrets_in_the_files_of_jobs_do_not_reach_the_report(tmp_path: Path) -> None:
    secret = "correct-horse-battery"
    job = a_job(verdict="failed", summary=f"curl said: {secret} is not valid")
    write_build(tmp_path / "in", [job])

    ran = inside("build", "merge", "in", "--json", cwd=tmp_path, env={"DEPLOY_TOKEN": secret})

    assert "is not valid" in ran.out
    assert secret not in ran.out


def test_the_current_build_is_merged_without_the_job_that_merges(tmp_path: Path) -> None:
    log = tmp_path / "log"
    stand_in_agent.install(tmp_path / "bin", log)
    jobs = (*a_red_build(), a_job("publish", verdict="failed"))
    retried = [str(job.about.job) for job in jobs if job.about.step == "restart"][:1]
    files = write_build(tmp_path / "uploaded", jobs, "correctness")
    stand_in_agent.put_build(log, files, retried=frozenset(retried))

    with running_api() as api:
        own = a_job("publish", about={"job": job_id("publish")})
        api.jobs = [api_job(each) for each in (a_job("smoke"), jobs[0], jobs[-1], own)]
        api.jobs[0]["state"] = "failed"
        ran = merge_in_a_job(
            tmp_path,
            "--json",
            BUILDKITE_API_TOKEN=TOKEN,
            BUILDKITE_REST_API_ENDPOINT=api.url,
            BUILDKITE_ORGANIZATION_SLUG="acme",
            BUILDKITE_PIPELINE_SLUG="serving",
            BUILDKITE_BUILD_NUMBER="812",
        )

    assert ran.code == 1, ran
    facts = json.loads(ran.out)["facts"]
    assert facts["missing"] == ["smoke"]
    queued = {
        step["name"]: job["queued_s"] for step in facts["build_steps"] for job in step["attempts"]
    }
    assert (queued["lint"], queued["unit"]) == (7.0, None)
    attempts = {step["name"]: len(step["attempts"]) for step in facts["build_steps"]}
    assert attempts == {
        "answers": 2,
        "kv-cache": 1,
        "latency": 2,
        "lint": 1,
        "restart": 2,
        "smoke": 1,
        "unit": 1,
    }
    assert not list(tmp_path.glob("ci-doctor-tmp*"))


def test_artifacts_that_cannot_be_read_make_no_green_build(tmp_path: Path) -> None:
    stand_in_agent.install(tmp_path / "bin", tmp_path / "log", failing="artifact search")

    ran = merge_in_a_job(tmp_path, "--json")

    assert ran.code == 86, ran
    rules = {finding["rule"] for finding in json.loads(ran.out)["findings"]}
    assert "build/unreadable" in rules


@pytest.mark.parametrize("words", [(), ("in", "--current"), ("nope",), ("--current",)])
def test_a_mistake_on_the_command_line_ends_with_2(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "in").mkdir()

    ran = inside("build", "merge", *words, cwd=tmp_path)

    assert ran.code == 2, ran
    assert "hint:" in ran.err
