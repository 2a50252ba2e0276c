# SPDX-License-Identifier: Apache-2.0
"""Acts on files: takes the values of secrets out of logs before anything uploads them."""

import os
import stat
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from ci_doctor.errors import UsageError
from ci_doctor.system.secrets.redaction import Redactor
from ci_doctor.system.secrets.spans import Span, in_place_of, merged

_CHUNK_BYTES = 1 << 20


def redact_files(paths: Iterable[Path], redactor: Redactor) -> tuple[str, ...]:
    """Take secrets out of each of `paths` that exists; return a warning for each one removed.

    A file that cannot be redacted is removed: no log is better than one with a secret in it.
    """
    warnings = []
    for path in paths:
        try:
            if path.exists():
                redact_file(path, redactor)
        except UsageError as error:
            path.unlink(missing_ok=True)
            warnings.append(f"removed {path}: {error.message}")
    return tuple(warnings)


def redact_file(path: Path, redactor: Redactor) -> bool:
    """Rewrite the file at `path` without the values of secrets. False if it holds none.

    Memory stays bounded for a file of any size. The new content replaces the old at once, with
    the same mode. Raises UsageError if it is not a regular file or cannot be rewritten.
    """
    try:
        # Not followed: behind a link may be a file of somebody else.
        if not stat.S_ISREG(path.lstat().st_mode):
            raise UsageError(
                f"cannot take secrets out of {path}: not a regular file",
                hint="give the log file itself",
            )
        with path.open("rb") as source:
            # A flat array of numbers: a log may hold its secret a million times.
            edges = array("Q")
            for span in merged(_spans_in(source, redactor)):
                edges.extend(span)
            if edges:
                _rewrite(path, source, edges)
    except OSError as error:
        raise UsageError(
            f"cannot take secrets out of {path}: {error.strerror or error}",
            hint="remove the file before anything uploads it",
        ) from error
    return bool(edges)


def _spans_in(source: IO[bytes], redactor: Redactor) -> Iterator[Span]:
    """As `Redactor.spans`, of a whole file.

    Each buffer holds as much of what is before and after it as the longest secret would need: the
    first line of a key tells what the others are.
    """
    reach = redactor.longest
    buffer = b""
    base = 0
    done = 0
    while chunk := source.read(_CHUNK_BYTES):
        buffer += chunk
        border = max(done, base + len(buffer) - reach)
        for start, stop in redactor.spans(buffer):
            if done <= base + start < border:
                yield base + start, base + stop
        done = border
        unneeded = max(0, border - reach - base)
        buffer = buffer[unneeded:]
        base += unneeded
    for start, stop in redactor.spans(buffer):
        if base + start >= done:
            yield base + start, base + stop


def _rewrite(path: Path, source: IO[bytes], edges: Sequence[int]) -> None:
    """Replace the file at `path` by `source` with the placeholder at each span.

    `edges` are start and stop of each span, one after another.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as target:
            source.seek(0)
            for start, stop in zip(edges[::2], edges[1::2], strict=True):
                _copy(source, target, start - source.tell())
                _write_mark(source, target, stop - start)
            _copy(source, target, os.fstat(source.fileno()).st_size - source.tell())
            target.flush()
            os.fsync(target.fileno())
        temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    except BaseException:  # also a signal: a copy of the log must not stay under another name
        temporary.unlink(missing_ok=True)
        raise


def _write_mark(source: IO[bytes], target: IO[bytes], count: int) -> None:
    """Pass `count` bytes of `source`, and write what stands in place of them."""
    is_first = True
    while count > 0:
        chunk = source.read(min(count, _CHUNK_BYTES))
        if not chunk:
            return
        mark = in_place_of(chunk)
        # The mark of the line that goes on is there already.
        target.write(mark if is_first else mark.removeprefix(in_place_of(b"")))
        is_first = False
        count -= len(chunk)


def _copy(source: IO[bytes], target: IO[bytes], count: int) -> None:
    while count > 0:
        chunk = source.read(min(count, _CHUNK_BYTES))
        if not chunk:
            return
        target.write(chunk)
        count -= len(chunk)
