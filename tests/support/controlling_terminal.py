# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: a session on a terminal of its own, with keys to press, as a person has it."""

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.cli import environment

CTRL_C = b"\x03"
CTRL_Z = b"\x1a"
_PATIENCE_S = 60.0
# Becomes the leader of a session on the terminal that is its stdin.
_LEADER = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


class ControllingTerminal:
    """`words` run on a terminal of `columns`; `written` is all that the terminal got."""

    def __init__(self, words: Sequence[str], *, cwd: Path, columns: int = 80) -> None:
        self.written = b""
        self._leader, follower = os.openpty()
        self.resize(columns)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _LEADER, *words],
            cwd=cwd,
            env=environment({"TERM": "xterm"}),
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
        )
        os.close(follower)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._leader)

    def resize(self, columns: int) -> None:
        """Give the terminal that width; the kernel tells the job in front."""
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        """Press these keys."""
        os.write(self._leader, keys)

    def read_until(self, text: bytes, *, times: int = 1) -> None:
        """Wait until the terminal has got `text` that often; fails if it never comes."""
        deadline = time.monotonic() + _PATIENCE_S
        while self.written.count(text) < times:
            assert self._read(deadline), f"{text!r} never came: {self.written.decode()}"

    def wait(self) -> int:
        """Read to the end; how the session's leader ended."""
        deadline = time.monotonic() + _PATIENCE_S
        while self._read(deadline):
            pass
        return self.process.wait(_PATIENCE_S)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._leader], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing more came: {self.written.decode()}"
        try:
            piece = os.read(self._leader, 4096)
        except OSError:  # EIO: all others have closed it
            return False
        self.written += piece
        return bool(piece)
