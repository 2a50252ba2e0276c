# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs a program in a session of its own, which a time limit ends as a whole."""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from msgspec import Struct


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
        lines = self.output.strip().splitlines()
        return lines[-1].strip() if lines else f"exit code {self.exit_code}, no output"


def run_limited(
    command: Sequence[str], *, timeout_s: float, cwd: Path, environ: Mapping[str, str]
) -> LimitedRun:
    """Run `command` for at most `timeout_s` seconds; then its session's group is killed.

    Raises OSError if it cannot be started.
    """
    # Output goes to a file: a child that keeps a pipe open would delay us.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=dict(environ),
            start_new_session=True,
        )
        exit_code: int | None = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                exit_code = process.wait(max(timeout_s, 0))
        finally:
            if process.returncode is None:  # not reaped yet, so the group is still ours
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return LimitedRun(exit_code=exit_code, output=_text(output))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
