# SPDX-License-Identifier: Apache-2.0
"""Acts on file descriptors: a pipe or a terminal in place of each of our output streams."""

import contextlib
import fcntl
import os
import termios
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

# A larger pipe wakes the reader less often. Linux gives this much to everybody (pipe(7)).
PIPE_BYTES: Final = 1 << 20
_OUTPUT_FLAGS: Final = 1  # the index of c_oflag in what tcgetattr returns
STDOUT: Final = 1
STDERR: Final = 2


class Channel(Struct, frozen=True, kw_only=True):
    """One way of a command's output to us.

    The command writes to `inlet`, which is each of its descriptors `numbers`. We read `source`, and
    write to our own `target`.
    """

    source: int
    inlet: int
    target: int
    numbers: tuple[int, ...]
    is_terminal: bool

    def close_inlet(self) -> None:
        """Close our copy of the command's end, so that its end of file reaches us."""
        os.close(self.inlet)

    def resize(self) -> bool:
        """Give the command's terminal the size of ours; whether it had another one."""
        if not self.is_terminal:
            return False
        try:
            size = termios.tcgetwinsize(self.target)
            if termios.tcgetwinsize(self.source) == size:
                return False
            termios.tcsetwinsize(self.source, size)
        except OSError:  # the terminal has gone away
            return False
        return True


def open_channels() -> tuple[Channel, ...]:
    """A channel for stdout and one for stderr, or one for both if they are the same file.

    With two of them nobody could tell later in which order their lines were written. Raises OSError
    if no descriptor or terminal is left.
    """
    if _are_same(STDOUT, STDERR):
        return (_open_channel((STDOUT, STDERR)),)
    return (_open_channel((STDOUT,)), _open_channel((STDERR,)))


def open_channel_to(target: int) -> Channel:
    """One channel for both streams, to our descriptor `target`. Raises OSError as `open_channels`."""
    channel = _open_channel((target,))
    return replace(channel, numbers=(STDOUT, STDERR))


def _are_same(first: int, second: int) -> bool:
    return os.path.samestat(os.fstat(first), os.fstat(second))


def _open_channel(numbers: tuple[int, ...]) -> Channel:
    target = numbers[0]
    is_terminal = os.isatty(target)
    if is_terminal:
        source, inlet = _open_terminal(target)
    else:
        source, inlet = _open_pipe()
    return Channel(
        source=source, inlet=inlet, target=target, numbers=numbers, is_terminal=is_terminal
    )


def _open_pipe() -> tuple[int, int]:
    source, inlet = os.pipe()
    # Beyond the user's share of such pages the pipe keeps its usual size.
    with contextlib.suppress(OSError):
        fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return source, inlet


def _open_terminal(model: int) -> tuple[int, int]:
    """A pseudo-terminal (pty(7)) like the terminal `model`.

    It changes no byte of what is written: the real terminal makes CR LF of LF. It is not the
    command's controlling terminal: that stays the real one, with its keys and its job control.
    """
    source, inlet = os.openpty()
    attributes = termios.tcgetattr(model)
    attributes[_OUTPUT_FLAGS] &= ~termios.OPOST
    termios.tcsetattr(inlet, termios.TCSANOW, attributes)
    termios.tcsetwinsize(source, termios.tcgetwinsize(model))
    return source, inlet
