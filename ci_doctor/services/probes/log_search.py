# SPDX-License-Identifier: Apache-2.0
"""Reads a log as it grows, and tells when a regular expression matches what is in it."""

import codecs
import os
import re
from pathlib import Path

from ci_doctor.system.secrets.private_keys import keyless

# What a regular expression searches in some milliseconds.
_CHUNK_BYTES = 256 * 1024
_WINDOW = 16 * 1024  # characters kept, for a match that begins in one chunk and ends in a later one
# A title of a terminal (OSC) may be long; what is longer is no escape sequence but text.
_LONGEST_ESCAPE = 256
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\^-~]"
)
_BEGUN_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[ -/]*)\Z")


class LogSearch:
    """Text that arrives in pieces, searched as one: `feed` it, then look at `matched`.

    Invalid UTF-8 becomes U+FFFD, escape sequences vanish, a carriage return ends a line. `^` and
    `$` match at lines, and an unfinished line counts as it stands. A match may span at most 16384
    characters.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern, re.MULTILINE)
        self.matched = False
        self.restart()

    def restart(self) -> None:
        """What comes now is another text."""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._begun = ""
        self._window = ""
        self._is_cut = False

    def feed(self, data: bytes) -> None:
        """Search the text with `data` at its end."""
        # An escape sequence may be cut in two by the end of a chunk: its begin waits for the rest.
        text = self._begun + self._decoder.decode(data)
        self._begun = _begun_escape(text)
        text = text[: len(text) - len(self._begun)]
        plain = _ESCAPES.sub("", text)
        self._window += plain.replace("\r", "\n")
        # A cut window has one character more before it, which tells `^` that no line begins there.
        first = 0
        if self._is_cut:
            first = 1
        if self._pattern.search(self._window, first) is not None:
            self.matched = True
        if len(self._window) > _WINDOW:
            self._window = self._window[-_WINDOW - 1 :]
            self._is_cut = True

    @property
    def last_line(self) -> str:
        """The last line that is not empty."""
        for line in reversed(keyless(self._window).split("\n")):
            if line.strip():
                return line.strip()
        return ""


class GrowingLog:
    """A file, read from its beginning to its end, and then on as it grows.

    It is read anew from its beginning if it was replaced or cut short.
    """

    def __init__(self, path: Path, pattern: str) -> None:
        self._path = path
        self._file: tuple[int, int] | None = None
        self._offset = 0
        self.search = LogSearch(pattern)
        self.problem: str | None = None

    def read_on(self) -> bool:
        """Search the next 256 KiB; whether there may be more.

        `problem` is why it cannot be read.
        """
        try:
            # Without O_NONBLOCK the open of a named pipe would wait for its writer.
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            self.problem = error.strerror
            return False
        try:
            self.problem = None
            return self._read(descriptor)
        except OSError as error:  # a folder
            self.problem = error.strerror
            return False
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int) -> bool:
        status = os.fstat(descriptor)
        identity = (status.st_dev, status.st_ino)
        # Rotated by rename, or in place by truncation (`copytruncate`, logrotate(8)).
        if identity != self._file or status.st_size < self._offset:
            self._file = identity
            self._offset = 0
            self.search.restart()
        data = os.pread(descriptor, _CHUNK_BYTES, self._offset)
        if data:
            self._offset += len(data)
            self.search.feed(data)
        return len(data) == _CHUNK_BYTES


def _begun_escape(text: str) -> str:
    """The end of `text` that may become an escape sequence with what comes next."""
    begun = _BEGUN_ESCAPE.search(text, max(0, len(text) - _LONGEST_ESCAPE))
    if begun is None:
        return ""
    return begun[0]
