# SPDX-License-Identifier: Apache-2.0
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.system.processes.process import (
    Child,
    ProcessEnding,
    adopted_ending,
    describe_exit,
    has_ended,
    observed_ending,
)


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


def test_a_child_that_lives_is_not_asked_about(process: subprocess.Popen[bytes]) -> None:
    child = Child(
        pid=process.pid,
        pidfd=os.pidfd_open(process.pid),
        started_at=0.0,
        ending=lambda _: 1 / 0,  # type: ignore[arg-type, return-value]
    )
    assert child.returncode() is None
    assert child.peak_rss is None
    child.close()


def test_how_a_child_ended_is_asked_once(process: subprocess.Popen[bytes]) -> None:
    asked: list[int] = []

    def ending(descriptor: int) -> ProcessEnding:
        asked.append(descriptor)
        return ProcessEnding(returncode=7, peak_rss=4096)

    pidfd = os.pidfd_open(process.pid)
    child = Child(pid=process.pid, pidfd=pidfd, started_at=0.0, ending=ending)
    end(process, pidfd)
    assert (child.returncode(), child.wait(), child.peak_rss) == (7, 7, 4096)
    assert asked == [pidfd]
    child.close()


def test_an_ending_that_nobody_knows_is_none_and_hangs_nobody(
    process: subprocess.Popen[bytes],
) -> None:
    pidfd = os.pidfd_open(process.pid)
    child = Child(pid=process.pid, pidfd=pidfd, started_at=0.0, ending=lambda _: ProcessEnding())
    end(process, pidfd)
    assert (child.wait(), child.returncode(), child.peak_rss) == (None, None, None)
    child.close()


def test_closing_twice_closes_no_stranger(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    child = Child(
        pid=process.pid,
        pidfd=os.pidfd_open(process.pid),
        started_at=0.0,
        ending=lambda _: ProcessEnding(),
    )
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
