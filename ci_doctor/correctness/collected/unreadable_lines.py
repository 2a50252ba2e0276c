# SPDX-License-Identifier: Apache-2.0
"""Acts on a process: which lines of a file hold no whole answer, found by a child while we compare bytes.

That two lines are alike says nothing of whether they are answers, and finding that out takes as long as all the rest. The
child knows only this file and `is_answer`; where it does not end well, its work is done here instead.
"""

import contextlib
import os
from array import array
from collections.abc import Iterator

from ci_doctor.correctness.collected.pieces import is_answer
from ci_doctor.correctness.collected.sources import Source, lines

_WORTH_A_CHILD = 8 << 20  # bytes; a smaller file is read before a child has started


class Soundness:
    """Begins to look at the lines of `source`; `unsound` waits for the end of it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._child: tuple[int, int] | None = None
        large = source.path.stat().st_size >= _WORTH_A_CHILD
        if large and len(os.sched_getaffinity(0)) > 1:
            with contextlib.suppress(OSError):  # no more processes: then it is done here
                self._child = _begin(source)

    def unsound(self) -> set[int]:
        """The 0-based indexes of the lines that the fast way does not know to hold an answer. Raises InfraError."""
        if self._child is not None and (told := self._told()) is not None:
            return told
        return set(_unsound(self._source))

    def close(self) -> None:
        """Wait for the child where nobody asked for what it found: it ends on its own, or on its first word to nobody."""
        self._told()

    def _told(self) -> set[int] | None:
        """What the child says, or None where it did not end well."""
        if self._child is None:
            return None
        (pid, end), self._child = self._child, None
        with os.fdopen(end, "rb") as pipe:
            content = pipe.read()
        _, status = os.waitpid(pid, 0)
        if status != 0:
            return None
        found = array("Q")
        found.frombytes(content)
        return set(found)


def _unsound(source: Source) -> Iterator[int]:
    form = source.form
    for index, line in enumerate(lines(source.path)):
        if not is_answer(form, line):
            yield index


def _begin(source: Source) -> tuple[int, int]:
    """A child that writes indexes, eight bytes each, and the end of the pipe to read them from. Raises OSError."""
    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(array("Q", _unsound(source)).tobytes())
        status = 0
    finally:
        # Nothing of the parent's may be done twice: no report, no `finally`, no flush of its output.
        os._exit(status)
