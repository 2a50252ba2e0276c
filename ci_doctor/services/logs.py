# SPDX-License-Identifier: Apache-2.0
"""Acts on files: the log of each start, opened, read as it grows, and searched."""

import asyncio
import codecs
import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.system.files.access import make_directory
from ci_doctor.system.files.growing import FileWatch, GrowingFile
from ci_doctor.system.secrets.private_keys import keyless

# These say nothing about the path: another job on this machine would get them too.
_EXHAUSTED = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})


def open_log(directory: Path, name: str) -> tuple[Path, int]:
    """A new file `NAME-1.log`, or with the next free number, and a descriptor that appends to it.

    Raises UsageError if it cannot be made, and InfraError if the machine has no disk space or
    file descriptor left for it.
    """
    number = 1
    try:
        make_directory(directory)
        while True:
            path = directory / f"{name}-{number}.log"
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
            try:
                return path, os.open(path, flags, 0o644)
            except FileExistsError:
                number += 1
    except OSError as error:
        message = f"cannot write logs to {directory}: {error.strerror or error}"
        if error.errno in _EXHAUSTED:
            hint = "free some space on that disk, or raise `ulimit -n`"
            raise InfraError(message, hint=hint) from error
        raise UsageError(message, hint="choose a directory that this user can write") from error


def is_out_of_space(path: Path) -> bool:
    """Whether not one byte more fits into the log: its last block is full, and so is its disk.

    Then the last words of its process are not in it (statvfs(3)).
    """
    try:
        size = path.stat().st_size
        disk = os.statvfs(path)
    except OSError:
        return False
    # A file system keeps some blocks for root alone.
    free = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
    return free == 0 and disk.f_blocks > 0 and size % disk.f_frsize == 0


TURN_BYTES = 256 * 1024  # some milliseconds of work, for a regular expression too
# After a flood the newest lines are what explains a death; the rest is in the file.
_NEWEST_BYTES = 1024 * 1024
_BEHIND_BYTES = 16 * 1024 * 1024
_LONGEST_LINE_BYTES = 64 * 1024


class LogWatch:
    """Calls `on_lines` with the new whole lines of the file at `path`, from its beginning on.

    Made and used inside a running event loop. Bytes that are no UTF-8 are replaced, NULs left out.
    A line without an end is delivered at `close`, or in pieces once it exceeds 64 KiB. A reader
    that falls 16 MiB behind goes on at the newest 1 MiB, and `on_skipped` gets the number of unread
    bytes. A file that does not exist yet is waited for; one that replaces it later is not read.
    """

    def __init__(
        self,
        path: Path,
        on_lines: Callable[[list[str]], None],
        *,
        on_skipped: Callable[[int], None] | None = None,
    ) -> None:
        self._on_lines = on_lines
        self._on_skipped = on_skipped
        self._loop = asyncio.get_running_loop()
        self._file = GrowingFile(path, by_name=False)
        self._unfinished = b""
        self._next_turn: asyncio.Handle | None = None
        self._closed = False
        self._watch = FileWatch(path, self._turn_soon)
        self._turn_soon()

    def close(self) -> None:
        """Deliver what is still unread, at most the last 1 MiB, and stop; may be called again."""
        if self._closed:
            return
        self._closed = True
        self._watch.close()
        if self._next_turn is not None:
            self._next_turn.cancel()
        try:
            # Bounded, because a survivor may write on for ever.
            for _ in range(2 * _NEWEST_BYTES // TURN_BYTES):
                if not self._read(_NEWEST_BYTES):
                    break
            self._finish_line()
        finally:
            self._file.close()

    def _turn_soon(self) -> None:
        if self._next_turn is None and not self._closed:
            self._next_turn = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._next_turn = None
        if self._read(_BEHIND_BYTES):
            self._turn_soon()

    def _read(self, most_behind: int) -> bool:
        """Read a piece; False if there is nothing more."""
        size = self._file.size()
        if size is None:
            return False
        if size - self._file.offset > most_behind:
            self._skip_to(size - _NEWEST_BYTES)
        if self._file.descriptor < 0:  # `on_skipped` has closed this watch
            return False
        piece = self._file.read(TURN_BYTES)
        self._take(piece)
        return bool(piece)

    def _skip_to(self, offset: int) -> None:
        """Go on there: the line that was begun ends, and a rest of another counts as a line."""
        skipped = offset - self._file.offset
        self._file.offset = offset
        self._finish_line()
        if self._on_skipped is not None:
            self._on_skipped(skipped)

    def _take(self, piece: bytes) -> None:
        # NULs are of a part that LogBound has freed, or of a sparse file.
        text = self._unfinished + piece.replace(b"\0", b"")
        lines = text.split(b"\n")
        rest = lines.pop()
        while len(rest) > _LONGEST_LINE_BYTES:
            lines.append(rest[:_LONGEST_LINE_BYTES])
            rest = rest[_LONGEST_LINE_BYTES:]
        self._unfinished = rest
        self._deliver(lines)

    def _finish_line(self) -> None:
        line, self._unfinished = self._unfinished, b""
        if line:
            self._deliver([line])

    def _deliver(self, lines: list[bytes]) -> None:
        if not lines:
            return
        # `\r\n`, as a program writes that expects a terminal.
        texts = [line.decode(errors="replace").removesuffix("\r") for line in lines]
        self._on_lines(texts)


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
        begun = _BEGUN_ESCAPE.search(text, max(0, len(text) - _LONGEST_ESCAPE))
        self._begun = "" if begun is None else begun[0]
        text = text[: len(text) - len(self._begun)]
        plain = _ESCAPES.sub("", text)
        self._window += plain.replace("\r", "\n")
        # A cut window has one character more before it, which tells `^` that no line begins there.
        first = 1 if self._is_cut else 0
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
