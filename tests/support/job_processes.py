# SPDX-License-Identifier: Apache-2.0
"""Runs the processes of one job one after another, as the agent's executor does, until the job is cancelled.

Copied from github.com/buildkite/agent v4 (internal/process/process.go, internal/job/grace.go), and compared with it:
each process has its own process group, and a controlling terminal if the agent has `pty`; what it leaves running in
the background delays nobody. A cancelled job interrupts the process of the command and of earlier phases by SIGTERM to
its group, and by SIGKILL after the grace period; no other process of these phases starts. `post-command` may still run
for a grace period from its start, `pre-exit` for one from the cancellation; after it they are interrupted likewise.
With a job log file (agent option `enable-job-log-tmpfile`) each line there has the agent's time mark.
"""

import contextlib
import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# Far above what any test needs; the process is killed then, and the test fails.
_HANGS_AFTER_S = 180.0
_MARK = b"\x1b_bk;t=1700000000000\x07"
# Jobs of one test run in threads. Who writes a program holds it while no other thread starts a process, because the
# new process has the open file until it becomes its program, and the system runs no file that is open for writing.
SPAWNING = threading.Lock()


class JobProcesses:
    """Runs processes and keeps their output; a byte written to `cancel` cancels the job."""

    def __init__(self, folder: Path, *, grace_s: float, terminal: bool) -> None:
        self.cancel = folder / "cancel"
        os.mkfifo(self.cancel)
        self.log_file = folder / "job.log"
        self.log_file.touch()
        self.output = bytearray()
        self.cancelled_at: float | None = None
        self._grace_s = grace_s
        self._terminal = terminal
        self._cancel_fd = os.open(self.cancel, os.O_RDWR | os.O_NONBLOCK)
        self._at_line_start = True

    def close(self) -> None:
        os.close(self._cancel_fd)

    def say(self, line: str) -> None:
        """Write a line of the agent's own to the job's log."""
        self._keep(f"{line}\n".encode())

    def run(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path,
        *,
        grace_from: float | None,
    ) -> int | None:
        """The exit status, as Go gives it: -1 if a signal ended the process. None if it did not start.

        In a cancelled job the process is interrupted at once, or does not start. With `grace_from`, a monotonic time,
        it is interrupted after the grace period, from then or from the cancellation, whichever is later.
        """
        stop = self._stop_time(grace_from)
        if stop is not None and time.monotonic() >= stop:
            self.say("error starting command: context canceled")
            return None
        source, sink = pty.openpty() if self._terminal else os.pipe()
        variables = {**environment, "TERM": "xterm-256color"} if self._terminal else environment
        with SPAWNING:
            process = subprocess.Popen(
                argv,
                env=variables,
                cwd=cwd,
                stdin=sink if self._terminal else subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
                preexec_fn=_take_terminal if self._terminal else None,  # noqa: PLW1509 - no threads here
            )
        os.close(sink)
        try:
            self._follow(process, source, grace_from)
        finally:
            os.close(source)
        return max(process.returncode, -1)

    def _follow(
        self, process: "subprocess.Popen[bytes]", source: int, grace_from: float | None
    ) -> None:
        """Copy the output until the process ends, and end it if the job's time is over."""
        pidfd = os.pidfd_open(process.pid)
        waiting = [pidfd, source, self._cancel_fd]
        hangs_at = time.monotonic() + _HANGS_AFTER_S
        signals = {hangs_at: signal.SIGKILL, **self._signals(grace_from)}
        try:
            while process.poll() is None:
                due = min(signals)
                ready, _, _ = select.select(waiting, [], [], max(0.0, due - time.monotonic()))
                if self._cancel_fd in ready:
                    self._begin_cancellation()
                    signals |= self._signals(grace_from)
                if source in ready and not self._copy(source):
                    waiting.remove(source)
                if time.monotonic() >= due:
                    _signal_group(process, signals.pop(due))
                    assert signals, f"{process.args!r} hangs"
        finally:
            os.close(pidfd)
        while source in waiting and select.select([source], [], [], 0)[0] and self._copy(source):
            pass

    def _signals(self, grace_from: float | None) -> dict[float, signal.Signals]:
        stop = self._stop_time(grace_from)
        if stop is None:
            return {}
        return {stop: signal.SIGTERM, stop + self._grace_s: signal.SIGKILL}

    def _stop_time(self, grace_from: float | None) -> float | None:
        """When a process is interrupted; None if the job is not cancelled."""
        if self.cancelled_at is None or grace_from is None:
            return self.cancelled_at
        return max(grace_from, self.cancelled_at) + self._grace_s

    def _begin_cancellation(self) -> None:
        os.read(self._cancel_fd, 4096)
        if self.cancelled_at is None:
            self.cancelled_at = time.monotonic()
            self.say("# Received cancellation signal, interrupting")

    def _copy(self, source: int) -> bool:
        """Whether there may be more."""
        try:
            data = os.read(source, 1 << 16)
        except OSError:  # EIO: nobody has the terminal open any more
            return False
        self._keep(data)
        return bool(data)

    def _keep(self, data: bytes) -> None:
        self.output += data
        marked = data.replace(b"\n", b"\n" + _MARK)
        if data.endswith(b"\n"):
            marked = marked.removesuffix(_MARK)
        with self.log_file.open("ab") as file:
            file.write(_MARK + marked if self._at_line_start and data else marked)
        self._at_line_start = data.endswith(b"\n") if data else self._at_line_start


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _signal_group(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
