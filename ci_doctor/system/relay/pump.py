# SPDX-License-Identifier: Apache-2.0
"""Acts on file descriptors: a thread passes a command's output on, byte for byte, and to its log.

One thread per channel: if nobody reads our stdout, stderr and signals go on. Our own streams cannot
be made non-blocking: others write to the same open files.
"""

import errno
import os
import select
import threading
from collections.abc import Callable
from typing import Final

from ci_doctor.system.relay.channel import PIPE_BYTES, Channel
from ci_doctor.system.relay.pauses import OutputPauses

_CHUNK_BYTES: Final = 128 * 1024


class Pump:
    """Passes the output of `channel` on until its end, or until `stopper` is closed at its far end.

    `add` gets each piece, and the descriptor it is for, before it is written. `on_end` is called in its thread at the end.
    pause_ms: how long nothing is read after a small piece. A command that writes a character at a time
    then does not wake us up for each of them.
    is_over: whether it has ended. is_exhausted: whether every writer has closed its end, or our own
    stream cannot be written any more.
    """

    def __init__(
        self,
        channel: Channel,
        stopper: int,
        add: Callable[[memoryview, int], None],
        on_end: Callable[[], None],
        *,
        pause_ms: int = 0,
    ) -> None:
        self.channel = channel
        self.is_exhausted = False
        self.is_over = False
        self.problem: OSError | None = None
        self._stopper = stopper
        self._add = add
        self._on_end = on_end
        self._pause_ms = pause_ms
        self._pauses = OutputPauses()
        self._buffer = memoryview(bytearray(_CHUNK_BYTES))

    @property
    def reader_left(self) -> bool:
        """Whether nobody reads our stream any more (`| head`)."""
        return self.problem is not None and self.problem.errno == errno.EPIPE

    def start(self) -> None:
        """Begin. The thread is a daemon: a reader that never reads must not keep us alive."""
        name = f"ci-doctor-output-{self.channel.target}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        is_broken = True
        try:
            self.is_exhausted = self._pass_all()
            is_broken = False
        except OSError as error:
            self.problem = error
        finally:
            if is_broken:
                # The command gets SIGPIPE at its next write, as it would from the reader itself.
                os.close(self.channel.source)
                self.is_exhausted = True
            self.is_over = True
            self._on_end()

    def _pass_all(self) -> bool:
        """Whether the end was reached; False if the pump was stopped before."""
        poll = select.poll()
        poll.register(self.channel.source, select.POLLIN)
        poll.register(self._stopper, select.POLLIN)
        while not self._is_stopped(poll):
            count = self._pass_piece(_CHUNK_BYTES)
            if not count:
                return True
            if self._pause_ms and self._pauses.comes_after(count):
                # The end of it all does not wait.
                _is_readable(self._stopper, self._pause_ms)
        # The command has ended. What it wrote is in the pipe; a flood by others is left there.
        left = PIPE_BYTES
        while left > 0 and _is_readable(self.channel.source):
            count = self._pass_piece(left)
            if not count:
                return True
            left -= count
        return False

    def _is_stopped(self, poll: select.poll) -> bool:
        return any(descriptor == self._stopper for descriptor, _ in poll.poll())

    def _pass_piece(self, limit: int) -> int:
        """Pass on what is there, at most `limit` bytes; 0 at the end."""
        count = _read_into(self.channel.source, self._buffer[:limit])
        piece = self._buffer[:count]
        # Before it is written: with a slow reader, the log keeps the order of both streams.
        self._add(piece, self.channel.target)
        while piece:
            written = _write(self.channel.target, piece)
            piece = piece[written:]
        return count


def _read_into(source: int, buffer: memoryview) -> int:
    try:
        return os.readv(source, [buffer])
    except OSError as error:
        # So a terminal says that all its users have closed it (pty(7)).
        if error.errno == errno.EIO:
            return 0
        raise


def _write(target: int, piece: memoryview) -> int:
    try:
        return os.write(target, piece)
    except BlockingIOError:  # somebody else has made it non-blocking
        poll = select.poll()
        poll.register(target, select.POLLOUT)
        poll.poll()
        return 0


def _is_readable(source: int, limit_ms: int = 0) -> bool:
    """Whether there is something to read, or the end, within `limit_ms`."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(limit_ms))
