# SPDX-License-Identifier: Apache-2.0
"""Reads a file as it grows, also when it is replaced or cut short."""

import errno
import os
import stat
from pathlib import Path

from ci_doctor.system.files.opening import open_at_once

# Between two looks at a file that others write: what becomes ready is noticed within 100 ms.
POLL_S = 0.05


class GrowingFile:
    """The regular file at `path`, read from its beginning, and then on as it grows.

    One that replaces it is read from its own beginning, after the rest of the former; one that was
    cut short is read anew. Not `by_name`: the first is read on for ever, from its new end if it was
    cut. A file that does not exist yet holds nothing. `problem` is why it cannot be read.
    `is_restarted` is set when what comes now is another text; whoever cares takes it back.
    """

    def __init__(self, path: Path, *, by_name: bool = True) -> None:
        self.offset = 0
        self.descriptor = -1
        self.problem: str | None = None
        self.is_restarted = False
        self._path = path
        self._by_name = by_name

    def size(self) -> int | None:
        """How many bytes it has; None if it cannot be opened."""
        if self.descriptor < 0 and not self._open():
            return None
        size = os.fstat(self.descriptor).st_size
        if size < self.offset:  # somebody has truncated it, as `copytruncate` does (logrotate(8))
            self.offset = 0 if self._by_name else size
            self.is_restarted = self._by_name
        return size

    def read(self, most: int) -> bytes:
        """The next bytes; nothing if there are no more."""
        piece = self._read(most)
        if not piece and self._by_name and self._is_replaced():
            self.close()
            self.offset = 0
            self.is_restarted = True
            piece = self._read(most)
        return piece

    def close(self) -> None:
        """Give the descriptor back; may be called again."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _read(self, most: int) -> bytes:
        if self.size() is None:
            return b""
        piece = os.pread(self.descriptor, most, self.offset)
        self.offset += len(piece)
        return piece

    def _open(self) -> bool:
        try:
            descriptor = open_at_once(self._path)
        except OSError as error:
            self.problem = error.strerror
            return False
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            self.problem = os.strerror(errno.EISDIR) if stat.S_ISDIR(mode) else "Not a regular file"
            return False
        self.descriptor = descriptor
        self.problem = None
        return True

    def _is_replaced(self) -> bool:
        try:
            there = self._path.stat()
        except OSError:
            # Between the two halves of a rotation: the next look finds the new file.
            return False
        return self.descriptor >= 0 and not os.path.samestat(there, os.fstat(self.descriptor))
