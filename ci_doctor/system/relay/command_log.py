# SPDX-License-Identifier: Apache-2.0
"""Acts on a file: a copy of what a command writes, with its first and last parts if it is long."""

import contextlib
import os
import threading
from pathlib import Path
from typing import Final

from ci_doctor.system.files.bounded_log import LogBound
from ci_doctor.system.relay.channel import STDOUT

LIMIT_OPTION: Final = "--log-limit"
_LEAST_BETWEEN_CHECKS: Final = 64 * 1024
# A longer piece of a line is written before its end.
_LONGEST_HELD: Final = 64 * 1024


class CommandLog:
    """The log at `path`, of at most `limit_bytes` in the end; a quarter more while it is written.

    Several threads may add to it. Each line stays whole, whatever the other stream writes meanwhile:
    an unbuffered `print` writes the end of its line by itself. A log that cannot be written any more ends there, and `problem`
    says so: the command goes on. Only this user may read it, because it may hold secrets. Raises
    OSError if it cannot be made.
    """

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self.path = path
        self.problem: str | None = None
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
