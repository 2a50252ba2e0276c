# SPDX-License-Identifier: Apache-2.0
"""The Buildkite plugin's hooks with this repository's ci-doctor: what reaches the command and the build."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import stand_in_agent
from tests.support.cli import environment, words
from tests.support.plugin_workplace import JOB_ID, Workplace, phases
from tests.support.wheels import make_venv

pytestmark = pytest.mark.integration


def calls(workplace: Workplace, *command: str) -> list[dict[str, Any]]:
    recorded: list[dict[str, Any]] = stand_in_agent.calls(workplace.agent_log)
    return [call for call in recorded if tuple(call["argv"][: len(command)]) == command]


def page(workplace: Workplace) -> dict[str, tuple[str, str]]:
    return stand_in_agent.annotations(workplace.agent_log)


def test_the_profile_reaches_the_command_and_the_report_the_build(real: Workplace) -> None:
    twice = "ci-doctor explain 75 >/dev/null; ci-doctor explain 86 >/dev/null"
    job = real.job(f"env; {twice}", {"determinism": "default", "pythons": sys.executable})

    assert job.run() == 0, job.log
    assert "CUBLAS_WORKSPACE_CONFIG=:4096:8" in job.log
    assert f"CI_DOCTOR_REPORT_DIR={real.checkout}/ci-doctor-report/{JOB_ID}" in job.log
    (annotation,) = calls(real, "annotate")
    assert annotation["flags"]["--context"] == "ci-doctor:step:e2e"
    (upload,) = calls(real, "artifact", "upload")
    assert f"{JOB_ID}/setup-env/report.json" in upload["files"]
    assert f"{JOB_ID}/setup-env/junit-{JOB_ID}.xml" in upload["files"]
    # A command that runs twice has a numbered folder, which is taken too.
    assert f"{JOB_ID}/explain-2/report.json" in upload["files"]
    assert real.verdicts() == ["pass"]
    # Buildkite would open this group, and not the command's.
    assert "\n--- " not in job.log


@pytest.mark.nightly
def test_each_option_of_setup_env_reaches_it(real: Workplace) -> None:
    site = make_venv(real.checkout / "venv")
    (real.checkout / "ci").mkdir()
    (real.checkout / "ci" / "doctor.toml").write_text('[setup-env]\ndeterminism = "default"\n')
    options = {
        "config": "ci/doctor.toml",
        "venvs": ["venv"],
        "preload": "json=decimal:Decimal",
        "allow-fallback": True,
    }
    job = real.job("env", options)

    assert job.run() == 0, job.log
    assert "CUBLAS_WORKSPACE_CONFIG=:4096:8" in job.log
    folder = real.checkout / "ci-doctor-report" / JOB_ID / "setup-env"
    report = json.loads((folder / "report.json").read_text())
    assert report["facts"]["targets"] == [str(real.checkout / "venv" / "bin" / "python")]
    assert "--allow-fallback" in report["reproduce"]
    assert list(site.glob("*ci_doctor_preload*"))


def test_a_checkout_whose_name_is_not_utf_8_is_kept_byte_for_byte(tmp_path: Path) -> None:
    checkout = tmp_path / os.fsdecode(b"caf\xe9 $x")
    ended = subprocess.run(
        words("plugin", "pre-command"),
        env=environment(
            {
                "BUILDKITE": "true",
                "BUILDKITE_JOB_ID": JOB_ID,
                "BUILDKITE_BUILD_CHECKOUT_PATH": str(checkout),
                "BUILDKITE_PLUGIN_CONFIGURATION": '{"setup-env": false}',
            }
        ),
        capture_output=True,
        check=True,
    )
    shown = subprocess.run(
        [
            "sh",
            "-c",
            'eval "$1"; printf %s "$CI_DOCTOR_REPORT_DIR"',
            "sh",
            os.fsdecode(ended.stdout),
        ],
        capture_output=True,
        check=True,
    )
    assert shown.stdout == os.fsencode(checkout / "ci-doctor-report" / JOB_ID)


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        ({"project": ".", "annotat": True}, "did you mean `annotate`?"),
        ({"determinism": "full"}, '"full" is none of'),
        ({"projects": None}, "the agent dropped all of it"),
        (["projects"], "is not a mapping"),
    ],
)
@pytest.mark.gate(1)
def test_a_wrong_option_fails_the_job_and_the_build_says_why(
    configuration: object, said: str, real: Workplace
) -> None:
    job = real.job(configuration=configuration)

    assert job.run() == 2, job.log
    assert phases(job) == ["pre-command", "pre-exit"]
    assert said in job.log
    (context, (style, body)), *others = page(real).items()
    assert (context, style, others) == ("ci-doctor:step:e2e", "error", [])
    assert said.replace("`", "").split("?")[0] in body.replace("`", "").replace("\\", "")
    assert real.verdicts() == ["error"]


@pytest.mark.nightly
def test_a_checkout_without_a_python_project_gets_its_determinism(real: Workplace) -> None:
    (real.checkout / "pyproject.toml").unlink()
    job = real.job("env", {"determinism": "strict", "pythons": sys.executable})

    assert job.run() == 0, job.log
    assert "CUBLAS_WORKSPACE_CONFIG=:4096:8" in job.log
    assert f"CI_DOCTOR_PREPARED={JOB_ID}:" in job.log
    assert {style for style, _ in page(real).values()} == {"success"}
    assert real.verdicts() == ["pass"]


def test_a_wrong_option_leaves_the_others_true(real: Workplace) -> None:
    reports = real.folder / "elsewhere"
    wrong = {"project": ".", "report-dir": str(reports), "annotate": False}
    job = real.job(configuration=wrong)

    assert job.run() == 2, job.log
    assert (reports / JOB_ID / "setup-env" / "report.json").exists()
    assert page(real) == {}
    assert len(calls(real, "artifact", "upload")) == 1


def test_a_plugin_that_is_listed_twice_does_it_once(real: Workplace) -> None:
    job = real.job(configuration={"pythons": sys.executable})
    job.other_configurations = [job.configuration]

    assert job.run() == 0, job.log
    assert phases(job).count("pre-command") == phases(job).count("pre-exit") == 2
    assert "the step lists the plugin twice" in job.log
    assert list(page(real)) == ["ci-doctor:step:e2e"]
    assert len(calls(real, "annotate")) == 1
    assert len(calls(real, "artifact", "upload")) == 1


@pytest.mark.parametrize(("project", "said"), [("gone", "gone"), (".", "pyproject.toml")])
@pytest.mark.gate(1)
def test_a_project_that_does_not_exist_fails_the_job_with_its_code_and_the_build_says_why(
    real: Workplace, project: str, said: str
) -> None:
    (real.checkout / "pyproject.toml").unlink()
    job = real.job(configuration={"projects": project, "pythons": sys.executable})

    assert job.run() == 2, job.log
    assert phases(job) == ["pre-command", "pre-exit"]
    (annotation,) = calls(real, "annotate")
    assert annotation["flags"]["--style"] == "error"
    assert said in annotation["body"]


def test_without_setup_env_the_report_directory_is_exported_and_no_earlier_report_published(
    real: Workplace,
) -> None:
    stale = real.checkout / "ci-doctor-report" / "earlier" / "correctness" / "report.json"
    stale.parent.mkdir(parents=True)
    stale.write_text(json.dumps({"schema": "ci-doctor/report/1"}))
    job = real.job("env", {"setup-env": False})

    assert job.run() == 0, job.log
    assert "CUBLAS_WORKSPACE_CONFIG" not in job.log
    assert "CI_DOCTOR_REPORT_DIR=" in job.log
    (upload,) = calls(real, "artifact", "upload")
    assert upload["files"] == [f"{JOB_ID}/job.json"]
    assert calls(real, "annotate") == []


def test_a_job_whose_command_fails_is_no_pass_and_a_failing_agent_changes_nothing(
    real: Workplace,
) -> None:
    stand_in_agent.install(real.bin, real.agent_log, failing="annotate")
    job = real.job("exit 3", {"pythons": sys.executable})

    assert job.run() == 3, job.log
    assert real.verdicts() == ["failed"]
    assert "500 Internal Server Error" in job.log
