# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts one in a session of its own and knows when it ends."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci_doctor.system import clock


class Child:
    """A process that we started.

    `pidfd` becomes readable when it ends (pidfd_open(2)); `started_at` is monotonic seconds. Nobody else may wait for
    `pid`: its exit status is handed out once, and `returncode` is the one that takes it.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid
        self.started_at = clock.now()
        try:
            self.pidfd = os.pidfd_open(process.pid)
        except OSError:  # no file descriptor left: without one its end would go unnoticed
            process.kill()
            process.wait()
            raise

    def returncode(self) -> int | None:
        """The exit code, or the negative signal number; None while it lives."""
        return self._process.poll()

    def wait(self) -> int:
        """The same, once `pidfd` is readable."""
        return self._process.wait()

    def close(self) -> None:
        """Give the pidfd back; may be called again."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


def start(words: Sequence[str], *, environment: Mapping[str, str], directory: Path, output: int) -> Child:
    """Run `words` as the leader of a new session, stdin empty, stdout and stderr on the file descriptor `output`.

    `environment` is the whole of its environment; its PATH finds the command. Raises OSError where that cannot run.
    """
    return Child(
        subprocess.Popen(
            words,
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    )


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; `SIGRTMIN+1` and its like, which Python has no name for, by number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe_exit(returncode: int) -> str:
    """`exit code 3`, or for a negative number `killed by SIGKILL (9)`."""
    if returncode >= 0:
        return f"exit code {returncode}"
    return f"killed by {signal_name(-returncode)} ({-returncode})"
