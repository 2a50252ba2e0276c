# SPDX-License-Identifier: Apache-2.0
"""The Buildkite plugin in each form of its source, in both orders of hooks, among others, and in a cancelled job."""

import os
import select
import shlex
from pathlib import Path

import pytest

from tests.support.bootstrap import Job, StepPlugin
from tests.support.plugin_workplace import Workplace, phases

pytestmark = pytest.mark.integration
VENDORED = "./buildkite_plugins/ci-doctor"
SUBDIRECTORY = "https://github.com/org/repo.git/buildkite_plugins/ci-doctor#v1.2.3"
URL = "https://github.com/org/ci-doctor-buildkite-plugin.git#v1.2.3"
# The agent makes BUILDKITE_PLUGIN_CI_DOCTOR_GIT_* of it (docs, "Writing plugins").
BARE_URL = "https://gitlab.example/org/ci-doctor.git#v1.2.3"
MAPS = 'echo "export BUILDKITE_COMMAND_EXIT_STATUS=75"'
# Nobody writes to the pipe; `read` is of the shell, and SIGTERM ends it.
WAITS = "read -r _ <> <(:)"
CANCELS = f'echo > "$CANCEL_JOB"; {WAITS}'


def hooks(folder: Path, **bodies: str) -> Path:
    """A folder `hooks` with these hooks; `_` stands for `-` in their names."""
    (folder / "hooks").mkdir(parents=True)
    for name, body in bodies.items():
        (folder / "hooks" / name.replace("_", "-")).write_text(f"{body}\n")
    return folder


def neighbour(workplace: Workplace, name: str) -> StepPlugin:
    """A plugin whose hooks print their name and the command's status."""
    says = 'echo "{} {} ${{BUILDKITE_COMMAND_EXIT_STATUS:-none}}"'
    bodies = {each: says.format(name, each) for each in ("pre_command", "post_command", "pre_exit")}
    return StepPlugin(hooks(workplace.folder / name, **bodies))


def said(job: Job, *names: str) -> list[str]:
    """The lines of the log that begin with one of the names."""
    return [line for line in job.log.splitlines() if line.split(" ")[0] in names]


@pytest.mark.parametrize(
    ("location", "version"), [(VENDORED, 3), (SUBDIRECTORY, 4), (URL, 4), (BARE_URL, 3)]
)
def test_the_plugin_works_in_each_form(location: str, version: int, workplace: Workplace) -> None:
    doctor = workplace.stand_in(exports="export NASTY=1\n", after=MAPS, at=workplace.folder / "dr")
    job = workplace.job(configuration={"executable": str(doctor), "exit-codes": True})
    job.command += "; exit 3"
    job.location, job.version = location, version
    if location != VENDORED:
        job.plugin = workplace.plugin.rename(workplace.folder / "cloned")

    assert job.run() == 75, job.log
    assert "SEEN '1'" in job.log
    assert phases(job) == ["pre-command", "command", "post-command", "pre-exit"]


def test_a_clone_of_the_plugin_alone_does_not_take_a_package_beside_it(
    workplace: Workplace,
) -> None:
    # Three folders above the hooks of a cloned plugin lies what is not ours.
    job = workplace.job(configuration={"determinism": "default"})
    job.location = URL
    job.plugin = workplace.plugin.rename(workplace.folder / "cloned")
    (workplace.folder.parent / "ci_doctor").mkdir(exist_ok=True)
    (workplace.bin / "python3").unlink()

    assert job.run() == 2, job.log
    assert "ci-doctor: not found" in job.log


@pytest.mark.parametrize("location", [VENDORED, URL])
def test_if_the_checkout_fails_only_a_plugin_from_elsewhere_runs(
    location: str, workplace: Workplace
) -> None:
    workplace.stand_in()
    job = workplace.job()
    job.location, job.checkout_status = location, 128

    assert job.run() == 128
    assert phases(job) == ([] if location == VENDORED else ["pre-exit"])
    assert ("published after none" in job.log) is (location != VENDORED)


@pytest.mark.parametrize(
    ("version", "post_command"),
    [
        (3, ["agent 3", "repository 3", "first 3", "last 75"]),
        (4, ["last 3", "first 75", "repository 75", "agent 75"]),
    ],
)
def test_all_other_hooks_run_and_the_later_ones_see_the_mapped_status(
    version: int, post_command: list[str], workplace: Workplace
) -> None:
    workplace.stand_in(after=MAPS)
    job = workplace.job("exit 3", {"exit-codes": True})
    job.version = version
    job.plugins_before = [neighbour(workplace, "first")]
    job.plugins_after = [neighbour(workplace, "last")]
    says = 'echo "{} post_command $BUILDKITE_COMMAND_EXIT_STATUS"'
    own = hooks(workplace.folder / "own", post_command=says.format("agent"))
    hooks(workplace.checkout / ".buildkite", post_command=says.format("repository"))
    job.agent_hooks = own / "hooks"

    assert job.run() == 75, job.log
    lines = said(job, "agent", "repository", "first", "last")
    ran = [line.replace(" post_command", "") for line in lines if "post_command" in line]
    assert ran == post_command
    ended = [line for line in lines if "pre_exit" in line]
    assert ended == ["first pre_exit 75", "last pre_exit 75"][:: 1 if version == 3 else -1]


def test_vendored_plugins_come_after_the_others_whatever_the_order_of_the_list(
    workplace: Workplace,
) -> None:
    workplace.stand_in(exports="echo ours pre_command\n")
    job = workplace.job("true")
    other = neighbour(workplace, "other")
    job.plugins_after = [StepPlugin(other.directory, location="org/other#v1")]

    assert job.run() == 0
    assert [line.split()[0] for line in said(job, "ours", "other") if "pre_command" in line] == [
        "other",
        "ours",
    ]


@pytest.mark.parametrize(
    ("hooks_shell", "terminal"),
    [(("/bin/bash", "-euo", "pipefail"), False), (("/bin/bash", "-eux", "-o", "pipefail"), True)],
)
def test_the_hooks_bear_any_shell_and_a_terminal(
    hooks_shell: tuple[str, ...], terminal: bool, workplace: Workplace
) -> None:
    workplace.stand_in(exports="export NASTY=1\n", after=MAPS)
    job = workplace.job("tty; exit 3", {"exit-codes": True})
    workplace.link("tty")
    job.hooks_shell, job.terminal = hooks_shell, terminal

    assert "HOME" not in job.environment
    assert job.run() == 75, job.log
    assert ("/dev/pts" in job.log) is terminal
    assert {status for phase, status in job.phases if phase != "command"} == {0}


def test_two_instances_see_their_own_options(workplace: Workplace) -> None:
    doctors = [
        workplace.stand_in(exports=f"export DOCTOR_{n}=1\n", at=workplace.folder / f"doctor{n}")
        for n in (1, 2)
    ]
    job = workplace.job("env", {"executable": str(doctors[0])})
    job.other_configurations = [{"executable": str(doctors[1])}]

    assert job.run() == 0, job.log
    assert workplace.calls() == [
        "doctor1 plugin pre-command",
        "doctor2 plugin pre-command",
        "doctor2 plugin pre-exit",
        "doctor1 plugin pre-exit",
    ]


class TestCancelled:
    """As a real agent 4 does it; in the log of each job stands which hook was interrupted."""

    def test_in_pre_command(self, workplace: Workplace) -> None:
        workplace.stand_in(exports=f"{CANCELS}\n")
        job = workplace.job("true")

        assert job.run() != 0
        assert phases(job) == ["pre-command", "pre-exit"]
        assert job.phases[-1] == ("pre-exit", 0)
        assert "published after none" in job.log

    # A trap waits for a builtin that has not begun to read when the signal comes; the end of `sleep` ends `wait`.
    @pytest.mark.parametrize(
        "command",
        [CANCELS, "trap 'exit 5' TERM; sleep 600 & echo > \"$CANCEL_JOB\"; wait"],
    )
    def test_in_the_command(self, command: str, workplace: Workplace) -> None:
        workplace.link("sleep")
        workplace.stand_in(after=MAPS)
        job = workplace.job(command)
        job.times_out = True

        assert job.run() == (5 if "trap" in command else 255)
        assert phases(job) == ["pre-command", "command", "post-command", "pre-exit"]
        assert {status for phase, status in job.phases if phase.startswith("p")} == {0}
        seen = (workplace.folder / "environment-of-pre-exit").read_text().splitlines()
        assert "BUILDKITE_JOB_CANCELLED=true" in seen
        assert "BUILDKITE_JOB_TIMED_OUT=true" in seen

    def test_in_post_command_the_hook_may_end_and_pre_exit_runs(self, workplace: Workplace) -> None:
        workplace.stand_in(after='echo > "$CANCEL_JOB"')
        job = workplace.job("exit 3")

        assert job.run() == 3
        assert job.phases[-2:] == [("post-command", 0), ("pre-exit", 0)]

    def test_in_post_command_a_hook_that_hangs_ends_with_the_grace_period(
        self, workplace: Workplace
    ) -> None:
        ended = workplace.folder / "ended"
        os.mkfifo(ended)
        told = os.open(ended, os.O_RDWR)
        workplace.link("sleep")
        workplace.stand_in(
            after=f"trap 'echo > {shlex.quote(str(ended))}; exit 1' TERM; "
            'echo > "$CANCEL_JOB"\nsleep 600 & wait'
        )
        job = workplace.job("exit 3")
        job.grace_s = 8.0

        assert job.run() != 0
        # The grace period is over: pre-exit does not start.
        assert phases(job) == ["pre-command", "command", "post-command"]
        # The signal reaches ci-doctor, which runs in a process group of its own, and may end after the hook.
        assert select.select([told], [], [], 180.0)[0]
        os.close(told)


@pytest.mark.parametrize("is_watched", [True, False])
def test_a_watched_command_runs_below_ci_doctor_and_keeps_its_status(
    workplace: Workplace, *, is_watched: bool
) -> None:
    workplace.real_ci_doctor()
    for program in ("ps", "sleep"):
        workplace.link(program)
    options = {"setup-env": False, "watch": is_watched, "annotate": False}
    # The variable would watch each bash of the job a second time.
    command = 'echo "BASH_ENV ${BASH_ENV-none}"; ps -ww -o args= -p $PPID; /bin/bash -c "exit 3"'

    job = workplace.job(command, options)

    assert job.run() == 3, job.log
    assert "BASH_ENV none" in job.log
    # Its command line as it shows itself, so that no `pkill python` of a job ends it.
    assert ("ci-doctor run" in job.log.splitlines()) is is_watched, job.log
