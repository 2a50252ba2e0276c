# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs programs in sessions of their own, each for a limited time, and ends all."""

import contextlib
import os
import resource
import shlex
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from msgspec import Struct

from ci_doctor.system import clock
from ci_doctor.system.files.access import unnamed_file
from ci_doctor.system.processes.cpu_wait import CpuWaits, extended
from ci_doctor.system.processes.process import has_ended
from ci_doctor.system.secrets.private_keys import keyless

# For a caller that is interrupted by `stop`.
LONGEST_S: Final = 600.0
_STOP_S: Final = 0.5
_MOST_BYTES: Final = 16 * 1024 * 1024
# What a program may write after its last signal, such as the stacks of its threads.
_LAST_S: Final = 1.0


class SeparateRun(Struct, frozen=True, kw_only=True):
    """How a run ended.

    `exit_code` is negative for a signal, and None if the time limit ended it. Of each output the
    last 16 MiB are kept.
    """

    exit_code: int | None
    stdout: str
    stderr: str
    duration_s: float

    @property
    def last_words(self) -> str:
        """The last line that is not blank, on stderr or else on stdout, or how the run ended."""
        for text in (self.stderr, self.stdout):
            lines = keyless(text.strip()).splitlines()
            if lines:
                return lines[-1].strip()
        if self.exit_code is None:
            return f"no answer within {self.duration_s:.1f} s"
        return f"exit code {self.exit_code}, no output"


class LimitedRuns:
    """The programs that run at present, so that an interruption can end all of them."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._groups: dict[int, tuple[int, str]] = {}  # pid -> the thread, the program
        self._is_stopped = False

    def run(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        timeout_s: float = LONGEST_S,
        last_signal: signal.Signals | None = None,
        is_together: bool = False,
    ) -> SeparateRun:
        """Run `words` in a session of its own, which is killed after `timeout_s` seconds.

        Seconds in which the program waited for a CPU extend that. The session is killed too if the
        program ends by itself and leaves processes there. `last_signal` is sent to the program at
        the time limit, a second before the session is killed. `is_together`: stderr stands in stdout,
        as both were written. Raises OSError if it cannot be started.
        """
        began = clock.now()
        # Output goes to files: a child that keeps a pipe open would delay us.
        with unnamed_file() as stdout, unnamed_file() as stderr:
            process = self._start(words, stdout, stdout if is_together else stderr, cwd, environ)
            is_over = False
            try:
                is_over = _wait(process.pid, timeout_s)
                if not is_over and last_signal is not None:
                    self._warn(process.pid, last_signal)
            finally:
                exit_code = self._end(process)
            return SeparateRun(
                exit_code=exit_code if is_over else None,
                stdout=_text(stdout),
                stderr=_text(stderr),
                duration_s=clock.now() - began,
            )

    def stop(self) -> None:
        """Kill what runs, and let nothing start any more.

        What another user owns by now (sudo) cannot be killed, and is left.
        Returns once all has ended, or after half a second: the kernel may hold a process longer.
        """
        with self._lock:
            self._is_stopped = True
            for group in self._groups:
                _kill(group)
            self._lock.wait_for(lambda: not self._groups, timeout=_STOP_S)

    def running_in(self, thread: int) -> str | None:
        """The program that the thread with this identity waits for, as a shell would be given it."""
        with self._lock:
            for owner, program in self._groups.values():
                if owner == thread:
                    return program
        return None

    def pids(self) -> tuple[int, ...]:
        """The programs that run now."""
        with self._lock:
            return tuple(self._groups)

    def _start(
        self,
        words: Sequence[str],
        stdout: IO[bytes],
        stderr: IO[bytes],
        cwd: Path,
        environ: Mapping[str, str],
    ) -> "subprocess.Popen[bytes]":
        # Under the lock, because a program that starts after `stop` would be left.
        with self._lock:
            if self._is_stopped:
                raise InterruptedError("ci-doctor is being stopped")
            process = subprocess.Popen(
                list(words),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                env=dict(environ),
                start_new_session=True,
            )
            self._groups[process.pid] = (threading.get_ident(), shlex.join(words))
        return process

    def _warn(self, pid: int, last_signal: signal.Signals) -> None:
        """Send `last_signal` to the program, and wait a little for what it makes of it."""
        # SIGABRT would leave a core file of gigabytes in the job's directory.
        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(PermissionError):
            os.kill(pid, last_signal)
        _has_ended(pid, _LAST_S)

    def _end(self, process: "subprocess.Popen[bytes]") -> int | None:
        """Kill what is left of the group, and return the exit status.

        None for a program that goes on because it cannot be killed.
        """
        # Not reaped yet, so the group is still ours.
        with self._lock:
            del self._groups[process.pid]
            self._lock.notify_all()
            is_killed = _kill(process.pid)
        return process.wait() if is_killed else process.poll()


def run_limited(
    command: Sequence[str], *, timeout_s: float, cwd: Path, environ: Mapping[str, str]
) -> SeparateRun:
    """Run `command` in a session of its own, with one output, as `LimitedRuns.run` does."""
    return LimitedRuns().run(
        command, cwd=cwd, environ=environ, timeout_s=timeout_s, is_together=True
    )


def _kill(group: int) -> bool:
    """Kill a group of ours; False if all of it belongs to another user, as after sudo."""
    try:
        os.killpg(group, signal.SIGKILL)
    except PermissionError:
        return False
    return True


def _wait(pid: int, timeout_s: float) -> bool:
    """Wait for a child without reaping it; whether it ended in time."""
    began = clock.now()
    waits = CpuWaits(lambda: (pid,))
    left_s = timeout_s
    while left_s > 0:
        if _has_ended(pid, left_s):
            return True
        limit_s = extended(timeout_s, waits.since({}))
        left_s = limit_s - (clock.now() - began)
    return False


def _has_ended(pid: int, limit_s: float) -> bool:
    """Whether a child that nobody has reaped ends in time."""
    pidfd = os.pidfd_open(pid)
    try:
        return has_ended(pidfd, limit_s)
    finally:
        os.close(pidfd)


def _text(file: IO[bytes]) -> str:
    """What was written; the end of it if that is more than a report could need."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _MOST_BYTES))
    return file.read().decode("utf-8", "replace")
