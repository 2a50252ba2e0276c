# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs a program on a terminal of its own, and keeps what the terminal got and what it shows."""

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence

from tests.support.cli import environment

ROWS, COLUMNS = 24, 80


def on_terminal(program: str, *arguments: str, env: Mapping[str, str | None] | None = None) -> str:
    """Everything that the Python `program` writes to a terminal which is its stderr."""
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env=environment({"TERM": "xterm", "CI": None, "NO_COLOR": None, **(env or {})}),
        stderr=follower,
        stdin=subprocess.DEVNULL,
    )
    os.close(follower)
    written = read_to_end(leader)
    assert process.wait() == 0, written.decode()
    return written.decode()


def read_to_end(leader: int) -> bytes:
    """All that is written to the other end of a terminal until that is closed; closes `leader`."""
    written = b""
    try:
        while piece := os.read(leader, 4096):
            written += piece
    except OSError:  # EIO: the other end is closed
        pass
    os.close(leader)
    return written


def in_a_pipe(program: str, *arguments: str, env: Mapping[str, str | None] | None = None) -> str:
    """Everything that the Python `program` writes to a pipe which is its stderr."""
    command = [sys.executable, "-c", program, *arguments]
    ran = subprocess.run(
        command, env=environment(env), capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )  # fmt: skip
    return ran.stderr


def without_colour(written: str) -> str:
    """`written` without SGR sequences."""
    return re.sub(r"\x1b\[\d*m", "", written)


def shown(written: str) -> Sequence[str]:
    """The lines that a person sees at the end, without colours. Knows only the two sequences which we write."""
    lines = [""]
    for piece in re.split(r"(\x1b\[\d+F\x1b\[J|\r\n)", without_colour(written)):
        if piece == "\r\n":
            lines.append("")
        elif match := re.match(r"\x1b\[(\d+)F", piece):
            above = int(match[1])
            assert above < ROWS, "more lines than the terminal has"
            lines[-1 - above :] = [""]
        else:
            lines[-1] += piece
    return lines
