# SPDX-License-Identifier: Apache-2.0
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ci_doctor.system import clock
from ci_doctor.system.processes.process import (
    Child,
    ProcessEnding,
    adopted_ending,
    describe_exit,
    exit_status,
    has_ended,
    is_ending,
    observed_ending,
)
from ci_doctor.system.processes.process_table import look_up
from ci_doctor.system.processes.tree import ExternalProcess

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
def test_how_a_process_ended_is_known_from_its_end_on(ending: str, returncode: int) -> None:
    subject = Subject(ending)
    assert subject.status() is None, "it lives"
    subject.end()
    assert subject.status() == returncode
    assert exit_status(None, subject.pid, subject.started) == returncode, "also without a pidfd"
    assert exit_status(None, subject.pid, subject.started + 1) is None, "a later one with its pid"
    subject.reap()
    assert exit_status(None, subject.pid, subject.started) is None, "only the pidfd remembers"
    # PIDFD_GET_INFO tells of the reaped since Linux 6.15.
    assert subject.status() == (returncode if KNOWS_THE_REAPED else None)
    subject.close()


@pytest.mark.skipif(os.getuid() != 0, reason="a process of another user is needed")
def test_a_zero_that_hides_the_truth_is_not_believed() -> None:
    subject = Subject("os._exit(7)")
    subject.end()
    look = (
        "import os; from ci_doctor.system.processes.process import exit_status\n"
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


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """It lives until its stdin is closed, and then ends with code 1."""
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        yield process


@pytest.fixture
def pidfd(process: subprocess.Popen[bytes]) -> Iterator[int]:
    descriptor = os.pidfd_open(process.pid)
    yield descriptor
    os.close(descriptor)


def end(process: subprocess.Popen[bytes], pidfd: int) -> None:
    assert process.stdin
    process.stdin.close()
    select.select([pidfd], [], [], 30)


@pytest.mark.parametrize(
    ("returncode", "words"),
    [
        (0, "exit code 0"),
        (3, "exit code 3"),
        (-9, "killed by SIGKILL (9)"),
        (-40, "killed by signal 40 (40)"),
    ],
)
def test_an_exit_is_told_in_words(returncode: int, words: str) -> None:
    assert describe_exit(returncode) == words


def child_of(
    process: subprocess.Popen[bytes], ending: Callable[[int], ProcessEnding | None]
) -> Child:
    pidfd = os.pidfd_open(process.pid)
    return Child(pid=process.pid, pidfd=pidfd, started_at=0.0, ending=ending)


def test_a_child_that_lives_is_not_asked_about(process: subprocess.Popen[bytes]) -> None:
    child = child_of(process, lambda _: pytest.fail("asked"))
    assert child.returncode() is None
    assert child.peak_rss is None
    child.close()


def test_how_a_child_ended_is_asked_once(process: subprocess.Popen[bytes]) -> None:
    asked: list[int] = []

    def ending(descriptor: int) -> ProcessEnding:
        asked.append(descriptor)
        return ProcessEnding(returncode=7, peak_rss=4096)

    child = child_of(process, ending)
    end(process, child.pidfd)
    assert (child.returncode(), child.wait(), child.peak_rss) == (7, 7, 4096)
    assert asked == [child.pidfd]
    child.close()


def test_an_ending_that_nobody_knows_is_none_and_hangs_nobody(
    process: subprocess.Popen[bytes],
) -> None:
    child = child_of(process, lambda _: ProcessEnding())
    end(process, child.pidfd)
    assert (child.wait(), child.returncode(), child.peak_rss) == (None, None, None)
    child.close()


def test_closing_twice_closes_no_stranger(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    child = child_of(process, lambda _: ProcessEnding())
    child.close()
    with (tmp_path / "other").open("w") as other:  # takes the number that the pidfd had
        child.close()
        other.write("still open")


def test_a_pidfd_says_whether_its_process_has_ended(
    process: subprocess.Popen[bytes], pidfd: int
) -> None:
    assert not has_ended(pidfd)
    end(process, pidfd)
    assert has_ended(pidfd)
    assert has_ended(pidfd, limit_s=None)


def test_a_child_that_we_adopted_is_waited_for(
    process: subprocess.Popen[bytes], pidfd: int
) -> None:
    assert adopted_ending(process.pid, pidfd) is None
    end(process, pidfd)
    ending = adopted_ending(process.pid, pidfd)
    assert ending is not None
    assert ending.returncode == 1
    assert ending.peak_rss
    assert ending.peak_rss > 1 << 20


def test_another_child_with_the_pid_is_not_waited_for(
    process: subprocess.Popen[bytes], pidfd: int
) -> None:
    with subprocess.Popen(["true"]) as other:
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert adopted_ending(other.pid, pidfd) is None
    assert other.returncode == 0


def test_who_is_not_our_child_has_no_known_ending() -> None:
    assert adopted_ending(1, -1) == ProcessEnding()


def test_an_ending_can_be_seen_without_waiting(
    process: subprocess.Popen[bytes], pidfd: int
) -> None:
    end(process, pidfd)
    assert observed_ending(process.pid, pidfd) == ProcessEnding(returncode=1)
    assert process.wait() == 1


def test_a_process_is_held_from_its_pid_to_its_end() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        held = ExternalProcess.open(process.pid)
        assert held is not None
        assert held.name == f"sleep (pid {process.pid})"
        assert held.started_at <= clock.now()
        assert not held.has_ended()
        process.kill()
        assert has_ended(held.pidfd, limit_s=30)
        assert held.has_ended()
        assert held.wait() == -9
    held.close()
    held.close()


def test_how_long_a_process_has_lived_is_known() -> None:
    init = ExternalProcess.open(1)
    ours = ExternalProcess.open(os.getpid())
    assert init is not None
    assert ours is not None
    assert init.started_at <= ours.started_at
    init.close()
    ours.close()


def test_a_pid_that_nobody_has_is_none() -> None:
    assert ExternalProcess.open(2**22 + 1) is None
