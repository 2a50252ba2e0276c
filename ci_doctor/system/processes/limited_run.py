# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs a program in a session of its own, which a time limit ends as a whole."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from msgspec import Struct

from ci_doctor.system import clock
from ci_doctor.system.files.unnamed_file import unnamed_file
from ci_doctor.system.secrets.cutting import keyless

# As often as subprocess itself looks at a child.
_SHORTEST_DELAY_S: Final = 0.001
_LONGEST_DELAY_S: Final = 0.05


class LimitedRun(Struct, frozen=True, kw_only=True):
    """How a run ended.

    `exit_code` is negative for a signal, and None if the time limit ended it. `output` is stdout
    and stderr together.
    """

    exit_code: int | None
    output: str

    @property
    def last_line(self) -> str:
        """The last line that is not blank, or how the run ended."""
        lines = keyless(self.output.strip()).splitlines()
        return lines[-1].strip() if lines else f"exit code {self.exit_code}, no output"


def run_limited(
    command: Sequence[str], *, timeout_s: float, cwd: Path, environ: Mapping[str, str]
) -> LimitedRun:
    """Run `command` for at most `timeout_s` seconds.

    Then its process group is killed, also if it ended by itself and left processes there.
    Raises OSError if it cannot be started.
    """
    # Output goes to a file: a child that keeps a pipe open would delay us.
    with unnamed_file() as output:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=dict(environ),
            start_new_session=True,
        )
        is_over = False
        try:
            is_over = wait_unreaped(process.pid, timeout_s)
        finally:
            # Not reaped yet, so the group is still ours. Nothing that was left in it stays.
            os.killpg(process.pid, signal.SIGKILL)
            exit_code = process.wait()
        return LimitedRun(exit_code=exit_code if is_over else None, output=_text(output))


def wait_unreaped(pid: int, timeout_s: float) -> bool:
    """Wait for at most `timeout_s` seconds for a child of ours without reaping it; whether it ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:  # Linux before 5.3, or no file descriptor is left
        return _wait_polling(pid, timeout_s)
    try:
        end = select.poll()
        end.register(descriptor, select.POLLIN)
        # A negative time would be none at all (poll(2)): it is the rest of a limit that is used up.
        return bool(end.poll(max(0.0, timeout_s) * 1000))
    finally:
        os.close(descriptor)


def _wait_polling(pid: int, timeout_s: float) -> bool:
    deadline = clock.now() + timeout_s
    delay_s = _SHORTEST_DELAY_S
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if clock.now() >= deadline:
            return False
        time.sleep(delay_s)
        delay_s = min(2 * delay_s, _LONGEST_DELAY_S)
    return True


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
