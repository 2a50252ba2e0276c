# SPDX-License-Identifier: Apache-2.0
"""Acts on files: a log of its own for each start, of which only the end is ever read."""

import errno
import os
from io import RawIOBase
from pathlib import Path

from ci_doctor.diagnosis.root_lines import Excerpt, root_lines
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.services.logs.bound import LogBound
from ci_doctor.system.files.sparse import BLOCK_BYTES, is_sparse

__all__ = ["LogBound", "open_log", "read_root_lines"]

_TAIL_BYTES = 256 * 1024
_COUNTED_BYTES = 16 * 1024 * 1024
_END_BYTES = 400
_CHUNK_BYTES = 1024 * 1024
_EXHAUSTED = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})


def open_log(directory: Path, name: str) -> tuple[Path, int]:
    """A new file `NAME-1.log`, or with the next free number, and a file descriptor that appends to it.

    Raises UsageError where it cannot be made, and InfraError where the machine has no more room for it.
    """
    number = 1
    try:
        directory.mkdir(parents=True, exist_ok=True)
        while True:
            path = directory / f"{name}-{number}.log"
            try:
                return path, os.open(
                    path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644
                )
            except FileExistsError:
                number += 1
    except OSError as error:
        message = f"cannot write logs to {directory}: {error.strerror or error}"
        if error.errno in _EXHAUSTED:
            raise InfraError(
                message, hint="free some space on that disk, or raise `ulimit -n`"
            ) from error
        raise UsageError(message, hint="choose a directory that this user can write") from error


def read_root_lines(path: Path) -> tuple[Excerpt, bool]:
    """The telling lines among the last 256 KiB, and whether their line numbers are those of the whole file.

    Line numbers of a file beyond 16 MiB, or whose middle was cut, are not counted. A file that cannot be read has no
    lines.
    """
    try:
        with path.open("rb", buffering=0) as file:
            holed = is_sparse(file.fileno())
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - _TAIL_BYTES)
            counted = start <= _COUNTED_BYTES and not holed
            before = _count_lines(file, start) if counted else 0
            file.seek(start)
            tail = file.read(_TAIL_BYTES)
    except OSError:
        return Excerpt(line=1, end_line=1, lines=()), False
    if holed:
        start, tail = _after_hole(start, tail)
    if start:
        # The first line is cut; an empty one in its place keeps the count, a file of one line keeps its very end.
        _, newline, rest = tail.partition(b"\n")
        tail = newline + rest if newline else tail[-_END_BYTES:]
    excerpt = root_lines(tail.replace(b"\0", b"").decode(errors="replace"))
    return Excerpt(
        line=excerpt.line + before, end_line=excerpt.end_line + before, lines=excerpt.lines
    ), counted


def is_out_of_space(path: Path) -> bool:
    """Whether not one byte more fits into the log: its last block is used up, and its disk has none left (statvfs(3)).

    What its process had to say at its end is then not in it.
    """
    try:
        size, disk = path.stat().st_size, os.statvfs(path)
    except OSError:
        return False
    free = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
    return free == 0 and disk.f_blocks > 0 and size % disk.f_frsize == 0


def _after_hole(start: int, tail: bytes) -> tuple[int, bytes]:
    """What follows the last freed block in `tail`, which begins at `start` of the file."""
    _, hole, rest = tail.rpartition(b"\0" * BLOCK_BYTES)
    return start + len(tail) - len(rest) if hole else start, rest


def _count_lines(file: RawIOBase, size: int) -> int:
    """How many newlines the first `size` bytes hold."""
    count = 0
    file.seek(0)
    while size > 0 and (chunk := file.read(min(_CHUNK_BYTES, size))):
        count += chunk.count(b"\n")
        size -= len(chunk)
    return count
