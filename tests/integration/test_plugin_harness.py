# SPDX-License-Identifier: Apache-2.0
"""That tests/support/bootstrap.py does what a real agent does: each row of its docstring was compared with one."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.bootstrap import Job, StepPlugin
from tests.support.plugin_environment import plugin_name, plugin_variables

pytestmark = pytest.mark.integration
STATUS = "BUILDKITE_COMMAND_EXIT_STATUS"


def job_of(tmp_path: Path, command: str = "true", **hooks: str) -> Job:
    """A job of one plugin with these hooks; `_` stands for `-` in their names."""
    folder = tmp_path / "plugin" / "hooks"
    folder.mkdir(parents=True)
    for name, body in hooks.items():
        (folder / name.replace("_", "-")).write_text(f"{body}\n")
    (tmp_path / "checkout").mkdir()
    return Job(
        plugin=tmp_path / "plugin",
        checkout=tmp_path / "checkout",
        temporary=tmp_path,
        command=command,
        environment={"PATH": "/usr/bin:/bin", "GIVEN": "given"},
    )


@pytest.mark.parametrize(
    ("command", "hook", "status"),
    [
        ("exit 300", "", 44),
        ("kill -KILL $$", "", 255),
        ("kill -KILL $$", f'[ "${STATUS}" = -1 ] && exit 9', 9),
        ("exit 3", f"export {STATUS}=75", 75),
        ("exit 3", f"export {STATUS}=0", 0),
        # strconv.Atoi gives 0 with an error, which the agent does not look at.
        ("exit 3", f"export {STATUS}=junk", 0),
        ("exit 3", f"export {STATUS}=75; exit 0", 3),
        ("true", "exit 5", 5),
        ("exit 3", "kill -KILL $$", 255),
    ],
)
def test_the_status_of_a_job(command: str, hook: str, status: int, tmp_path: Path) -> None:
    assert job_of(tmp_path, command, post_command=hook).run() == status


def test_a_hook_that_fails_ends_its_phase_and_pre_exit_decides_last(tmp_path: Path) -> None:
    job = job_of(tmp_path, post_command="exit 5", pre_exit=f"echo PRE-EXIT ${STATUS}; exit 6")
    other = job_of(tmp_path / "other", post_command="echo OTHER").plugin
    job.plugins_before = [StepPlugin(other)]

    assert job.run() == 6
    assert "OTHER" not in job.log
    assert "PRE-EXIT 0" in job.log


def test_what_a_hook_changes_in_the_environment(tmp_path: Path) -> None:
    changes = (
        "export ADDED=1 BYTES=$'caf\\xe9' BUILDKITE_BUILD_PATH=/elsewhere; unset GIVEN; LOCAL=1; "
        "cd /; set -e"
    )
    job = job_of(tmp_path, 'env; echo "PWD is $PWD"; false; true', pre_command=changes)
    job.environment["BUILDKITE_BUILD_PATH"] = "/builds"

    assert job.run() == 1
    lines = job.log.splitlines()
    assert {"ADDED=1", "BUILDKITE_BUILD_PATH=/builds", "PWD is /"} <= set(lines)
    # The dump is JSON, and what the bootstrap was started with reaches each process of the job.
    assert {"BYTES=caf\N{REPLACEMENT CHARACTER}", "GIVEN=given"} <= set(lines)
    assert not [line for line in lines if line.startswith("LOCAL=")]


def test_the_log_file_has_the_agents_time_marks_and_is_there_while_the_job_runs(
    tmp_path: Path,
) -> None:
    job = job_of(tmp_path, "echo said", post_command='cat -v "$BUILDKITE_JOB_LOG_TMPFILE"')
    job.keeps_log_file = True

    assert job.run() == 0
    assert "^[_bk;t=1700000000000^Gsaid\n" in job.log


def test_what_a_hook_leaves_running_delays_nobody(tmp_path: Path) -> None:
    job = job_of(tmp_path, post_command="sleep 600 & echo $! > pid")

    assert job.run() == 0
    assert job.phases[-1] == ("post-command", 0)
    os.kill(int((tmp_path / "checkout" / "pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("./buildkite_plugins/ci-doctor", "ci-doctor"),
        (".buildkite/plugins/ci_doctor", "ci-doctor"),
        ("https://h/org/repo.git/buildkite_plugins/ci-doctor#v1", "ci-doctor"),
        ("ssh://git@h/org/ci-doctor-buildkite-plugin.git#v1", "ci-doctor"),
        ("https://h/org/ci-doctor.git#v1", "ci-doctor-git"),
    ],
)
def test_the_name_of_a_plugin(source: str, name: str) -> None:
    assert plugin_name(source) == name


def test_the_variables_of_a_configuration() -> None:
    flat = plugin_variables("ci-doctor", {"a b": {"c-d": [1, True]}, "e": "<&>", "none": []})

    assert flat == {
        "BUILDKITE_PLUGIN_NAME": "CI_DOCTOR",
        "BUILDKITE_PLUGIN_CONFIGURATION": (
            '{"a b":{"c-d":[1,true]},"e":"\\u003c\\u0026\\u003e","none":[]}'
        ),
        "BUILDKITE_PLUGIN_CI_DOCTOR_A_B_C_D_0": "1",
        "BUILDKITE_PLUGIN_CI_DOCTOR_A_B_C_D_1": "true",
        "BUILDKITE_PLUGIN_CI_DOCTOR_E": "<&>",
    }
    assert plugin_variables("ci-doctor", {"projects": None}) == {}
