# SPDX-License-Identifier: Apache-2.0
"""Acts on a process: a child finds the lines that hold no whole answer, while we compare bytes.

Two equal lines may both be no answer. Checking that takes as long as all the rest of the
comparison. The child needs only this file and `is_answer`. If it fails, its work is done in this
process.
"""

import contextlib
import os
from array import array
from collections.abc import Iterator

from ci_doctor.correctness.collected.pieces import is_answer
from ci_doctor.correctness.collected.sources import Source, lines

_WORTH_A_CHILD = 8 << 20  # bytes; a smaller file is read before a child has started


class AnswerCheck:
    """Starts to check the lines of `source`; `unreadable` waits for the result."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._child: tuple[int, int] | None = None
        large = source.path.stat().st_size >= _WORTH_A_CHILD
        # On one processor the child would only take turns with us.
        if large and len(os.sched_getaffinity(0)) > 1:
            # If the system has no process to spare, the work is done here.
            with contextlib.suppress(OSError):
                self._child = _begin(source)

    def unreadable(self) -> set[int]:
        """The 0-based indexes of the lines that the fast way does not know to hold an answer.

        Raises InfraError.
        """
        indexes = self._result()
        return set(_unreadable(self._source)) if indexes is None else indexes

    def close(self) -> None:
        """Wait for the child if its result was not needed.

        It ends on its own, or when it writes to the closed pipe.
        """
        self._result()

    def _result(self) -> set[int] | None:
        """What the child found, or None if there is no child or it failed."""
        if self._child is None:
            return None
        pid, end = self._child
        self._child = None
        with os.fdopen(end, "rb") as pipe:
            content = pipe.read()
        _, status = os.waitpid(pid, 0)
        if status != 0:
            return None
        indexes = array("Q")
        indexes.frombytes(content)
        return set(indexes)


def _unreadable(source: Source) -> Iterator[int]:
    form = source.form
    for index, line in enumerate(lines(source.path)):
        if not is_answer(form, line):
            yield index


def _begin(source: Source) -> tuple[int, int]:
    """The id of a child that writes indexes, eight bytes each, and the pipe's end to read from.

    Raises OSError.
    """
    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if pid:
        # While this end is open, a read would wait for ever.
        os.close(writing)
        return pid, reading
    status = 1
    try:
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(array("Q", _unreadable(source)).tobytes())
        status = 0
    finally:
        # Nothing of the parent's may be done twice: no report, no `finally`, no flush of its
        # output.
        os._exit(status)
