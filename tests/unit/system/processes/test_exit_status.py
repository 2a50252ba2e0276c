# SPDX-License-Identifier: Apache-2.0
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ci_doctor.system.processes.exit_status import exit_status, is_ending
from ci_doctor.system.processes.process_table import look_up

KNOWS_THE_REAPED = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 15)
ENDINGS = [
    ("os._exit(0)", 0),
    ("os._exit(7)", 7),
    ("os.kill(os.getpid(), 9)", -9),
    ("os.abort()", -6),
]


class Subject:
    """A process that ends as it is told, and stays a zombie until `reap`."""

    def __init__(self, ending: str) -> None:
        program = f"import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); input(); {ending}"
        self.process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
        self.pid = self.process.pid
        self.pidfd = os.pidfd_open(self.pid)
        kin = look_up(self.pid)
        assert kin is not None
        self.started = kin.started

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.close()
        select.select([self.pidfd], [], [], 30)

    def reap(self) -> None:
        self.process.wait()

    def status(self) -> int | None:
        return exit_status(self.pidfd, self.pid, self.started)

    def close(self) -> None:
        os.close(self.pidfd)


@pytest.mark.parametrize(("ending", "returncode"), ENDINGS)
def test_how_a_zombie_ended_is_known(ending: str, returncode: int) -> None:
    subject = Subject(ending)
    subject.end()
    assert subject.status() == returncode
    assert exit_status(None, subject.pid, subject.started) == returncode, "also without a pidfd"
    subject.reap()
    subject.close()


@pytest.mark.parametrize(("ending", "returncode"), ENDINGS)
@pytest.mark.skipif(
    not KNOWS_THE_REAPED, reason="PIDFD_GET_INFO tells of the reaped since Linux 6.15"
)
def test_how_a_process_ended_is_known_after_its_parent_has_waited_for_it(
    ending: str, returncode: int
) -> None:
    subject = Subject(ending)
    subject.end()
    subject.reap()
    assert subject.status() == returncode
    assert exit_status(None, subject.pid, subject.started) is None, "only the pidfd remembers"
    subject.close()


def test_a_living_process_has_no_exit_status() -> None:
    subject = Subject("os._exit(0)")
    assert subject.status() is None
    subject.end()
    subject.reap()
    subject.close()


def test_a_later_process_with_the_pid_is_not_taken_for_it() -> None:
    subject = Subject("os._exit(7)")
    subject.end()
    assert exit_status(None, subject.pid, subject.started + 1) is None
    subject.reap()
    subject.close()


@pytest.mark.skipif(os.getuid() != 0, reason="a process of another user is needed")
def test_a_zero_that_hides_the_truth_is_not_believed() -> None:
    subject = Subject("os._exit(7)")
    subject.end()
    look = (
        "import os; from ci_doctor.system.processes.exit_status import exit_status\n"
        "os.setgid(65534); os.setuid(65534)\n"
        f"print(exit_status(None, {subject.pid}, {subject.started}))"
    )
    seen = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=30
    )
    assert seen.stdout == "None\n"
    subject.reap()
    subject.close()


def test_what_is_not_a_pidfd_tells_nothing() -> None:
    with Path(os.devnull).open() as other:
        assert exit_status(other.fileno(), 2**22 + 1, 0) is None


def test_a_process_is_ending_from_the_moment_that_its_end_is_certain() -> None:
    subject = Subject("os._exit(0)")
    assert not is_ending(subject.pid, subject.started)
    assert is_ending(subject.pid, subject.started + 1), "a later process with its pid"
    subject.end()
    assert is_ending(subject.pid, subject.started), "a zombie"
    subject.reap()
    assert is_ending(subject.pid, subject.started), "gone"
    subject.close()


def test_a_stopped_process_is_not_ending() -> None:
    subject = Subject("os._exit(0)")
    os.kill(subject.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, subject.pid, os.WSTOPPED)
    assert not is_ending(subject.pid, subject.started)
    os.kill(subject.pid, signal.SIGCONT)
    os.waitid(os.P_PID, subject.pid, os.WCONTINUED)
    assert not is_ending(subject.pid, subject.started)
    subject.end()
    subject.reap()
    subject.close()
