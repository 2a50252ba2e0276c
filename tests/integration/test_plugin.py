# SPDX-License-Identifier: Apache-2.0
"""The Buildkite plugin's hooks, sourced by a real bash as the agent does, around a real command."""

import shlex

import pytest
import yaml

from tests.support.plugin_workplace import REPOSITORY, Workplace, phases

pytestmark = pytest.mark.integration

NASTY = 'it\'s "so"\n$HOME `id` \\ ;\n\ngröße'


def test_exports_reach_the_command_whatever_they_hold(workplace: Workplace) -> None:
    workplace.stand_in(exports=f"export NASTY={shlex.quote(NASTY)}\n")
    job = workplace.job()

    assert job.run() == 0
    assert f"SEEN {NASTY!a}" in job.log
    assert workplace.calls() == ["ci-doctor plugin pre-command", "ci-doctor plugin pre-exit"]


def test_a_failing_setup_env_fails_the_job_with_its_code_before_the_command(
    workplace: Workplace,
) -> None:
    workplace.stand_in(exports="export NASTY=half\n", last="(exit 75)\n", status=75)
    job = workplace.job()

    assert job.run() == 75
    assert phases(job) == ["pre-command", "pre-exit"]
    assert "said on stderr" in job.log
    assert "^^^ +++" in job.log
    assert "NASTY" not in job.environment
    assert "published after none" in job.log


@pytest.mark.parametrize(
    ("printed", "status"),
    [
        # A statement that fails is enough, and so is a tool that is killed.
        ("echo 'export CI_DOCTOR_REPORT_DIR=reports'; echo '(exit 2)'", 2),
        ("kill -KILL $$", 137),
    ],
)
def test_a_preparation_that_did_not_end_well_fails_the_job(
    workplace: Workplace, printed: str, status: int
) -> None:
    program = workplace.bin / "ci-doctor"
    program.write_text(f"#!/bin/sh\n{printed}\n")
    program.chmod(0o755)
    job = workplace.job()

    assert job.run() == status
    assert phases(job) == ["pre-command", "pre-exit"]


@pytest.mark.parametrize("printed", ["", "# report\n", "export STOOD_IN=1\n"])
def test_a_ci_doctor_that_prints_not_all_fails_the_job_whatever_its_status(
    workplace: Workplace, printed: str
) -> None:
    workplace.stand_in(exports=printed, last="")
    job = workplace.job()

    assert job.run() == 75
    assert phases(job) == ["pre-command", "pre-exit"]
    assert "printed no exports" in job.log


@pytest.mark.parametrize("status", [0, 1, 3, 137])
def test_the_reports_are_published_after_any_command_and_its_status_stands(
    workplace: Workplace, status: int
) -> None:
    workplace.stand_in()
    job = workplace.job(f"exit {status}")

    assert job.run() == status
    assert f"published after {status}" in job.log
    assert "the reports are not published (status 9)" in job.log


def test_the_hooks_see_the_options_and_the_command_does_not(workplace: Workplace) -> None:
    workplace.stand_in()
    job = workplace.job("env", {"projects": ["a", "b"], "setup-env": False})

    assert job.run() == 0
    seen = (workplace.folder / "environment-of-pre-command").read_text()
    assert 'BUILDKITE_PLUGIN_CONFIGURATION={"projects":["a","b"],"setup-env":false}' in seen
    assert "BUILDKITE_PLUGIN_CI_DOCTOR_PROJECTS_1=b" in seen
    assert "BUILDKITE_PLUGIN_CONFIGURATION" not in job.log


@pytest.mark.parametrize("is_relative", [False, True])
def test_the_executable_option_wins_over_the_path(workplace: Workplace, is_relative: bool) -> None:
    workplace.stand_in(status=1)
    place = workplace.checkout / "tools" if is_relative else workplace.folder / "with space"
    other = workplace.stand_in(exports="export NASTY=other\n", at=place / "doctor")
    option = "tools/doctor" if is_relative else str(other)
    job = workplace.job(configuration={"executable": option})

    assert job.run() == 0
    assert "SEEN 'other'" in job.log
    assert workplace.calls() == ["doctor plugin pre-command", "doctor plugin pre-exit"]


def test_an_executable_that_cannot_run_is_not_replaced_by_another(workplace: Workplace) -> None:
    workplace.stand_in()
    job = workplace.job(configuration={"executable": "./gone"})

    assert job.run() == 2
    assert phases(job) == ["pre-command", "pre-exit"]
    assert "option `executable` names ./gone, which is not an executable file" in job.log
    assert workplace.calls() == []


@pytest.mark.parametrize(
    ("configuration", "files", "environment"),
    [
        ({"determinism": "default"}, {}, {}),
        ({"preload": ["a=b"], "diagnose": "x.log"}, {}, {}),
        ({"setup-env": True}, {}, {}),
        ({"cache": {"strict": True}}, {}, {}),
        ({"determinsm": "strict"}, {}, {}),
        ({"determinism": None}, {}, {}),
        ({"diagnose": "x.log"}, {"ci-doctor.toml": "[setup-env]\n"}, {}),
        ({"diagnose": "x.log"}, {"pyproject.toml": "[tool.ci-doctor.setup-env]\n"}, {}),
        ({}, {}, {"CI_DOCTOR_SETUP_ENV_DETERMINISM": "strict"}),
    ],
)
def test_no_ci_doctor_anywhere_fails_a_step_that_needs_it_first_and_is_said_once(
    configuration: object,
    files: dict[str, str],
    environment: dict[str, str],
    workplace: Workplace,
) -> None:
    (workplace.bin / "python3").unlink()  # which may have ci-doctor installed
    for name, text in files.items():
        (workplace.checkout / name).write_text(text)
    job = workplace.job(configuration=configuration, **environment)

    assert job.run() == 2, job.log
    assert phases(job) == ["pre-command", "pre-exit"]
    assert job.log.count("ci-doctor: not found") == 1
    assert "name it by the plugin's option `executable`" in job.log


def first_step_of_the_readme() -> dict[str, object]:
    page = (REPOSITORY / "README.md").read_text()
    (step,) = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])["steps"]
    return next(iter(step["plugins"][0].values()))


@pytest.mark.parametrize("status", [0, 3])
@pytest.mark.parametrize(
    "configuration",
    [
        first_step_of_the_readme(),
        None,
        {"setup-env": False, "annotate": False, "report-dir": "r", "diagnose": ["a", "b"]},
        {"cache": {"store": "s3://x", "strict": False}},
    ],
)
def test_without_a_ci_doctor_the_command_runs_if_nothing_is_needed_before_it(
    configuration: object, status: int, workplace: Workplace
) -> None:
    (workplace.bin / "python3").unlink()
    (workplace.checkout / "pyproject.toml").write_text("[project]\nname = 'setup-env'\n")
    job = workplace.job(f"echo RAN; exit {status}", configuration=configuration)

    assert job.run() == status, job.log
    assert "RAN" in job.log
    assert job.log.count("ci-doctor: not found") == 1
    assert "the command runs all the same" in job.log


def vendored(workplace: Workplace, dependency: str) -> None:
    """The checkout is a stand-in for this repository, whose package needs `dependency`."""
    package = workplace.checkout / "ci_doctor"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "cli.py").touch()
    (package / "__main__.py").write_text(
        "import os, sys\n"
        "print('export NASTY=' + '-'.join([*sys.argv[1:], os.environ.get('PYTHONPATH', 'unset')]))\n"
        "print('export CI_DOCTOR_REPORT_DIR=reports')\n"
    )
    (workplace.checkout / "pyproject.toml").write_text(
        f"[project]\nname = 'x'\ndependencies = ['{dependency}']\n"
    )


def test_a_vendored_ci_doctor_runs_without_being_installed_and_leaves_no_trace_in_the_environment(
    workplace: Workplace,
) -> None:
    vendored(workplace, "click>=8.2")
    (workplace.checkout / "runpy.py").write_text(
        "raise SystemExit('the checkout shadows the standard library')\n"
    )
    job = workplace.job()

    assert job.run() == 0
    assert "SEEN 'plugin-pre-command-unset'" in job.log


def test_a_vendored_ci_doctor_whose_dependencies_are_not_installed_is_not_taken(
    workplace: Workplace,
) -> None:
    vendored(workplace, "no-such-distribution>=1,<2")
    job = workplace.job(configuration={"determinism": "default"})

    assert job.run() == 2
    assert job.log.count("ci-doctor: not found") == 1
