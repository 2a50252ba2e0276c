# SPDX-License-Identifier: Apache-2.0
"""The Buildkite plugin where everything around it is broken: the job's result is that of its command.

A table of breakages, each through the real hooks and, but for the last of them, with this repository's ci-doctor.
"""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.support import stand_in_agent
from tests.support.annotated_page import shown
from tests.support.plugin_workplace import PLUGIN, Workplace, phases

pytestmark = pytest.mark.integration
OPTIONS = {"setup-env": False, "diagnose": "app.log", "exit-codes": True}
# Its cause is not outside the change: no diagnosis gives it another status.
FAILS = "echo 'AssertionError: 3 != 4' > app.log; exit 3"
BROKEN_TOOL = "printf '#!/bin/sh\\nkill -SEGV $$\\n' > \"$(command -v ci-doctor)\""


def agent(**broken: str) -> Callable[[Workplace], object]:
    return lambda workplace: stand_in_agent.install(workplace.bin, workplace.agent_log, **broken)


def without_agent(workplace: Workplace) -> None:
    (workplace.bin / "buildkite-agent").unlink()


def in_namespace(mounts: str) -> Callable[[Workplace], object]:
    """Runs ci-doctor, and nothing else, where `mounts` are made over the directories $1 and $2."""

    def prepare(workplace: Workplace) -> None:
        for program in ("unshare", "mount", "sh", "cat"):
            if not (workplace.bin / program).exists():
                workplace.link(program)
        executable = workplace.bin / "ci-doctor"
        moved = executable.rename(workplace.folder / "ci-doctor")
        reports = workplace.checkout / "ci-doctor-report"
        reports.mkdir()
        script = f'{mounts}\nshift 2; exec "$@"'
        words = ["unshare", "-rm", "sh", "-ec", script, "sh", str(reports), str(workplace.checkout)]
        executable.write_text(f'#!/bin/sh\nexec {shlex.join([*words, str(moved)])} "$@"\n')
        executable.chmod(0o755)

    return prepare


def can_mount() -> bool:
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not can_mount(), reason="no user namespace can be made")
FULL = """
mount -t tmpfs -o size=4k tmpfs "$1"
cat /dev/zero > "$1"/fill 2> /dev/null || true"""
READ_ONLY = 'mount --bind "$2" "$2"; mount -o remount,bind,ro "$2"'


@pytest.mark.parametrize(
    ("break_it", "said", "is_published"),
    [
        pytest.param(without_agent, "no buildkite-agent on PATH", False, id="no agent"),
        pytest.param(agent(version="3.0.0"), None, True, id="an agent too old for the flags"),
        pytest.param(
            agent(broken="refuses"), "500 Internal Server Error", False, id="API answers 500"
        ),
        pytest.param(agent(broken="prints junk"), None, False, id="agent prints junk"),
        pytest.param(
            agent(broken="kills its caller"),
            "the reports are not published (status 137)",
            False,
            id="killed in the middle of pre-exit",
        ),
        pytest.param(
            in_namespace(FULL), "No space left on device", None, id="full disk", marks=needs_mounts
        ),
        pytest.param(
            in_namespace(READ_ONLY),
            "Read-only file system",
            None,
            id="read-only",
            marks=needs_mounts,
        ),
    ],
)
@pytest.mark.gate(1)
def test_the_result_is_that_of_the_command(
    break_it: Callable[[Workplace], object],
    said: str | None,
    is_published: bool | None,
    real: Workplace,
) -> None:
    break_it(real)
    job = real.job(FAILS, OPTIONS)

    assert job.run() == 3, job.log
    assert phases(job) == ["pre-command", "command", "post-command", "pre-exit"]
    assert {status for phase, status in job.phases if phase != "command"} == {0}
    assert "AssertionError: 3 != 4" in job.log
    assert said is None or said in job.log
    if is_published is not None:
        assert bool(stand_in_agent.calls(real.agent_log)) is is_published
    assert "Traceback" not in job.log
    assert "a bug in ci-doctor" not in job.log


def test_an_agent_that_hangs_is_waited_for_a_bounded_time(real: Workplace) -> None:
    agent(broken="hangs")(real)
    job = real.job(FAILS, OPTIONS, CI_DOCTOR_HOOK_SECONDS="3")

    assert job.run() == 3, job.log
    assert "it did not end within 3 s" in job.log
    assert job.phases[-1] == ("pre-exit", 0)


@pytest.mark.parametrize("gone", ['rm "$(command -v ci-doctor)"', BROKEN_TOOL])
def test_a_tool_that_the_command_removes_or_breaks_changes_no_result(
    gone: str, real: Workplace
) -> None:
    (real.bin / "python3").unlink()  # which may have ci-doctor installed
    job = real.job(f"{gone}; exit 3", OPTIONS)
    real.link("rm")

    assert job.run() == 3, job.log
    assert {status for phase, status in job.phases if phase != "command"} == {0}


@needs_mounts
def test_a_full_disk_fails_the_preparation_closed(real: Workplace) -> None:
    in_namespace(FULL)(real)
    job = real.job("true", {"pythons": sys.executable})

    assert job.run() == 75, job.log
    assert phases(job) == ["pre-command", "pre-exit"]
    assert job.phases[-1] == ("pre-exit", 0)


EVIL = (
    "</details><script>alert(1)</script> $(touch pwned) `touch pwned` \x1b]1339;url='x'\x07"
    "\x1b[2J\u202e ``` <img src=x onerror=alert(1)>\n+++ evil\n--- evil\n^^^ +++\n::error::evil"
)
WRITES_LOGS = """
import os, sys
evil = os.environ["BUILDKITE_LABEL"]
cause = b"urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='files.pythonhosted.org', port=443): Read timed out. "
for name in ("$(touch pwned).log", "-rf.log", "<script>.log", "two\\nlines.log"):
    with open(name, "wb") as log:
        log.write(b"\\0" * 10 + b"x" * 1_000_000 + b"\\n" + evil.encode() + b"\\n")
        log.write(cause + evil.replace("\\n", " ").encode() + b"\\0\\n")
sys.exit(3)
"""


def test_hostile_values_are_shown_and_neither_run_nor_obeyed(real: Workplace) -> None:
    command = f"python3 -c {shlex.quote(WRITES_LOGS)}"
    hostile = {
        f"BUILDKITE_{name}": EVIL for name in ("LABEL", "BRANCH", "MESSAGE", "TAG", "SOURCE")
    }
    configuration = {**OPTIONS, "diagnose": ["*.log", EVIL]}
    job = real.job(command, configuration, **hostile, BUILDKITE_STEP_KEY=EVIL[:60])
    job.keeps_log_file = True

    # All logs that are there end with the outage, and the command ended with them.
    assert job.run() == 75, job.log
    assert not list(real.folder.rglob("pwned"))
    ours = job.log.partition("looking for the cause")[2]
    assert "Read timed out" in ours
    # The agent quotes the variables of a job nowhere: what stands there is ours.
    assert not {"\0", "\x1b", "\x07", "\u202e"} & set(ours)
    lines = ours.splitlines()
    assert not [line for line in lines if line.startswith(("+++ evil", "--- evil", "::error"))]
    page = stand_in_agent.annotations(real.agent_log)
    assert page
    for context, (_, body) in page.items():
        assert len(context) <= 100
        assert len(body.encode()) <= 1024 * 1024
        assert "Read timed out" in shown(body).text
        assert not {"\0", "\x1b", "\x07", "\u202e"} & set(body)


def test_a_hostile_job_id_stays_one_folder_of_the_reports(real: Workplace) -> None:
    job = real.job("echo DIR=$CI_DOCTOR_REPORT_DIR", {"setup-env": False})
    job.environment["BUILDKITE_JOB_ID"] = "-rf\n../../$(touch pwned)"

    assert job.run() == 0, job.log
    assert f"DIR={real.checkout}/ci-doctor-report/rf-touch-pwned" in job.log
    assert not list(real.folder.rglob("pwned"))


def test_a_killed_hook_leaves_nothing_that_holds_the_log(tmp_path: Path) -> None:
    here = tmp_path / "here"
    os.mkfifo(here)
    library = PLUGIN / "lib" / "plugin.bash"
    inner = f"echo here > {shlex.quote(str(here))}; exec sleep 600"
    lines = f". {shlex.quote(str(library))}; ci_doctor_bounded 600 sh -c {shlex.quote(inner)}; :"
    hook = subprocess.Popen(
        ["bash", "-c", lines],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    here.read_text()
    # The shell between, the command, and the clock that ends it: only then can it be missed.
    while len(psutil.Process(hook.pid).children(recursive=True)) < 3:
        os.sched_yield()

    # As the agent does after its grace period: what has a process group of its own does not get it.
    os.killpg(hook.pid, signal.SIGKILL)

    log, _ = hook.communicate(timeout=60)  # to the end of the pipe: nobody has it any more
    assert log == b""
