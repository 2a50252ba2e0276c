# SPDX-License-Identifier: Apache-2.0
"""Acts on file descriptors: a command's output passes through us, byte for byte, and is kept in a log.

A pipe or a terminal stands in place of each of our output streams. One thread serves each channel:
if nobody reads our stdout, stderr and signals go on. Our own streams cannot be made non-blocking:
others write to the same open files.
"""

import contextlib
import errno
import fcntl
import os
import select
import termios
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.system import clock
from ci_doctor.system.files.bounded_log import LogBound

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
    if os.path.samestat(os.fstat(STDOUT), os.fstat(STDERR)):
        return (_open_channel((STDOUT, STDERR)),)
    return (_open_channel((STDOUT,)), _open_channel((STDERR,)))


def open_channel_to(target: int) -> Channel:
    """One channel for both streams, to our descriptor `target`. Raises OSError as `open_channels`."""
    channel = _open_channel((target,))
    return replace(channel, numbers=(STDOUT, STDERR))


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


# A piece below this size: the command writes little by little.
_SMALL_BYTES: Final = 256
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
            if self._pause_ms and count < _SMALL_BYTES:
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


LIMIT_OPTION: Final = "--log-limit"
_LEAST_BETWEEN_CHECKS: Final = 64 * 1024
# A longer piece of a line is written before its end.
_LONGEST_HELD: Final = 64 * 1024


class CommandLog:
    """The log at `path`, of at most `limit_bytes` in the end; a quarter more while it is written.

    Several threads may add to it. Each line stays whole, whatever the other stream writes meanwhile:
    an unbuffered `print` writes the end of its line by itself. A log that cannot be written any more ends there, and `problem`
    says so: the command goes on. Only this user may read it, because it may hold secrets. `last_at` is
    when the command wrote last, in monotonic seconds. Raises OSError if it cannot be made.
    """

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self.path = path
        self.problem: str | None = None
        self.last_at = clock.now()
        self._bound = LogBound(path, limit_bytes, setting=LIMIT_OPTION)
        self._between_checks = max(_LEAST_BETWEEN_CHECKS, limit_bytes // 4)
        self._unchecked = 0
        self._begun: dict[int, bytes] = {}
        self._lock = threading.Lock()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)

    def add(self, piece: memoryview, stream: int = STDOUT) -> None:
        """Append `piece`, which `stream` wrote; the begin of a line waits for its end."""
        with self._lock:
            # The end of a stream is an empty piece.
            if piece:
                self.last_at = clock.now()
            text = self._begun.pop(stream, b"") + piece
            end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
            if len(text) - end > _LONGEST_HELD:
                end = len(text)
            if end < len(text):
                self._begun[stream] = text[end:]
            self._append(text[:end])

    def flush(self) -> None:
        """Append the lines that have no end yet."""
        with self._lock:
            self._flush()

    def finish(self) -> str:
        """Write no more, and cut the log to its limit; a sentence if something was cut out."""
        with self._lock:
            self._flush()
            self.close()
            return self._bound.finish()

    def close(self) -> None:
        """Give the descriptor back; may be called again."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1

    def _flush(self) -> None:
        for text in self._begun.values():
            self._append(text)
        self._begun.clear()

    def _append(self, text: bytes) -> None:
        if not text or self.problem is not None or self._descriptor < 0:
            return
        try:
            _write_all(self._descriptor, memoryview(text))
        except OSError as error:
            self.problem = error.strerror or str(error)
            return
        self._unchecked += len(text)
        if self._unchecked >= self._between_checks:
            self._unchecked = 0
            self._bound.check()


def _write_all(descriptor: int, piece: memoryview) -> None:
    while piece:
        written = os.write(descriptor, piece)
        piece = piece[written:]
