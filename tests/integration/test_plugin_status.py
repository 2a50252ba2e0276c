# SPDX-License-Identifier: Apache-2.0
"""The hook post-command of the Buildkite plugin: when a failed command gets another status, and that nothing else does.

`ci-doctor` is a shell program here that prints and ends as a broken one could.
"""

import shlex
from pathlib import Path

import pytest

from tests.support.bootstrap import Job
from tests.support.plugin_workplace import PLUGIN, Workplace, phases

pytestmark = pytest.mark.integration
MAP = {"exit-codes": True}
EXPORT = "export BUILDKITE_COMMAND_EXIT_STATUS="


def failing(workplace: Workplace, after: str, configuration: object = None, **environ: str) -> Job:
    """A job whose command ends with 3, and what ci-doctor then does."""
    workplace.stand_in(after=after)
    return workplace.job("exit 3", MAP if configuration is None else configuration, **environ)


@pytest.mark.parametrize(("version", "last_sees"), [(3, 75), (4, 3)])
def test_a_mapped_status_is_the_jobs_and_other_hooks_still_run(
    workplace: Workplace, version: int, last_sees: int
) -> None:
    job = failing(workplace, f"echo {EXPORT}75")
    job.other_configurations = [{}]
    job.version = version

    assert job.run() == 75
    assert phases(job).count("post-command") == 2
    assert all(status == 0 for phase, status in job.phases if phase != "command")
    assert "~~~ :stethoscope: ci-doctor: looking for the cause" in job.log
    # The last one in the list has no option; it runs last with agents 3, and first with agents 4.
    assert job.log.count("the command keeps its status") == 1
    assert f"the command keeps its status {last_sees}" in job.log


def test_a_diagnosis_without_a_mapping_leaves_the_status(workplace: Workplace) -> None:
    job = failing(workplace, "echo the cause >&2")

    assert job.run() == 3
    assert "the cause" in job.log
    assert "the command keeps" not in job.log


@pytest.mark.parametrize(
    ("command", "cancelled", "status"), [("exit 3", "true", 3), ("true", "false", 0)]
)
def test_a_job_that_was_cancelled_or_passed_loses_no_time_by_a_diagnosis(
    workplace: Workplace, command: str, cancelled: str, status: int
) -> None:
    workplace.stand_in(after=f"echo {EXPORT}75")
    job = workplace.job(command, MAP, BUILDKITE_JOB_CANCELLED=cancelled)

    assert job.run() == status
    assert workplace.calls() == ["ci-doctor plugin pre-command", "ci-doctor plugin pre-exit"]
    assert "looking for the cause" not in job.log


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (f"echo {EXPORT}0", 70),
        (f"echo {EXPORT}125", 70),
        (f"echo {EXPORT}256", 70),
        (f"echo {EXPORT}075", 70),
        (f"echo {EXPORT}-1", 70),
        (f"echo '{EXPORT}75; touch pwned'", 70),
        (f"echo '{EXPORT}75'; echo more", 70),
        (f"echo ' {EXPORT}75'", 70),
        (f"echo '{EXPORT}$(touch pwned)'", 70),
        ("echo 'touch pwned'", 70),
        (f"echo {EXPORT}75; exit 1", 1),
        (f"echo {EXPORT}75; kill -KILL $$", 137),
        ("exit 70", 70),
    ],
)
def test_whatever_else_is_printed_changes_nothing_and_one_line_says_so(
    workplace: Workplace, after: str, said: int
) -> None:
    job = failing(workplace, after)

    assert job.run() == 3
    assert ("post-command", 0) in job.phases
    sentence = f"ci-doctor: post-command ended with {said}: the command keeps its status 3"
    assert job.log.count(sentence) == 1
    assert not (workplace.checkout / "pwned").exists()


@pytest.mark.parametrize("configuration", [{}, {"exit-codes": False}])
def test_without_the_option_no_status_is_taken_over(
    workplace: Workplace, configuration: object
) -> None:
    job = failing(workplace, f"echo {EXPORT}75", configuration)

    assert job.run() == 3
    assert "the command keeps its status 3" in job.log


def test_a_ci_doctor_that_hangs_is_stopped_with_what_it_started(workplace: Workplace) -> None:
    workplace.link("sleep")
    # The child holds stdout; the pid file is written by the shell that waits for it.
    after = (
        f"echo {EXPORT}75; sleep 600 & echo $! > {shlex.quote(str(workplace.folder / 'pid'))}; wait"
    )
    job = failing(workplace, after, CI_DOCTOR_HOOK_SECONDS="1")

    assert job.run() == 3
    assert "it did not end within 1 s" in job.log
    assert "the command keeps its status 3" in job.log
    pid = (workplace.folder / "pid").read_text().strip()
    assert not Path("/proc", pid).exists() or "Z" in Path("/proc", pid, "stat").read_text()


@pytest.mark.parametrize("seconds", ["", "0", "soon"])
def test_a_limit_that_is_no_number_of_seconds_stops_nothing(
    workplace: Workplace, seconds: str
) -> None:
    job = failing(workplace, f"echo {EXPORT}75", CI_DOCTOR_HOOK_SECONDS=seconds)

    assert job.run() == 75, job.log


def test_what_ci_doctor_leaves_behind_does_not_hold_the_job(workplace: Workplace) -> None:
    workplace.link("sleep")
    job = failing(workplace, f"sleep 600 & echo {EXPORT}75")

    assert job.run() == 75


@pytest.mark.parametrize("hook", ["pre-command", "post-command", "pre-exit"])
def test_hooks_work_in_a_caller_with_strict_options_and_without_a_home(
    workplace: Workplace, hook: str
) -> None:
    workplace.stand_in(after=f"echo {EXPORT}75")
    hooks = shlex.quote(str(PLUGIN / "hooks" / hook))
    job = workplace.job(
        f"set -euo pipefail; unset HOME; . {hooks}; echo status-${{BUILDKITE_COMMAND_EXIT_STATUS-none}}",
        BUILDKITE_COMMAND_EXIT_STATUS="3",
        BUILDKITE_PLUGIN_CI_DOCTOR_EXIT_CODES="true",
    )
    job.plugin = workplace.folder  # no hooks but the command's own

    assert job.run() == 0, job.log
    assert f"status-{75 if hook == 'post-command' else 3}" in job.log
