# SPDX-License-Identifier: Apache-2.0
"""Finds Python tracebacks in the lines of a log. Pure."""

import re
from collections.abc import Sequence

from msgspec import Struct

_HEADER = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "[^"]*", line \d+')
# `ImportError: no libcudart`, `KeyboardInterrupt`, `app.make.<locals>.OwnError: ...`
_EXCEPTION = re.compile(r"[A-Za-z_][\w.<>]*(?::|$)")
# vLLM's API server ends with such a line; the traceback that it points to stands earlier.
_POINTER = re.compile(r"see (?:root cause|stack trace|the (?:logs?|error)s?) above", re.IGNORECASE)


class Traceback(Struct, frozen=True, kw_only=True):
    """A complete traceback: the indices of its first line and of its exception's first line.

    With `is_pointer` the exception only points to another traceback. `has_header` is False for
    frames without the line that begins a traceback, as Python prints for a SyntaxError.
    """

    start: int
    exception: int
    has_header: bool
    is_pointer: bool


class _Begun(Struct, frozen=True, kw_only=True):
    start: int
    has_header: bool

    @property
    def earliest_exception(self) -> int:
        # A header is followed by a frame at least; a frame without its code may be the last one.
        frame = self.start + 1 if self.has_header else self.start
        return frame + 1


def tracebacks(lines: Sequence[str]) -> list[Traceback]:
    """Every complete traceback in `lines`, in order of their first lines.

    What a logger puts before each line is skipped: a traceback begins at the column of its header
    or first frame, and all of its lines are read from that column on. Lines in between that belong
    to other writers are passed over.
    """
    complete: list[Traceback] = []
    # By column, because the tracebacks of processes that log with different prefixes interleave.
    begun: dict[int, _Begun] = {}
    for index, line in enumerate(lines):
        column = line.find(_HEADER)
        if column >= 0:
            _begin_anew(begun, column, index)
            continue
        frame = _FRAME.search(line)
        if frame is not None and frame.start() not in begun:
            begun[frame.start()] = _Begun(start=index, has_header=False)
        for column in _columns_ended_by(line, index, begun):
            ended = begun.pop(column)
            complete.append(_traceback(ended, index, line))
    return sorted(complete, key=lambda each: each.start)


def _begin_anew(begun: dict[int, _Begun], column: int, index: int) -> None:
    """A header cuts off what has begun at its column or before it: those lines hold it too."""
    # Of a list, since a dict must not change while it is read.
    for other in list(begun):
        if other <= column:
            del begun[other]
    begun[column] = _Begun(start=index, has_header=True)


def _columns_ended_by(line: str, index: int, begun: dict[int, _Begun]) -> list[int]:
    """At which columns `line` is the exception of a traceback that has begun there."""
    ended = []
    for column, traceback in begun.items():
        if index >= traceback.earliest_exception and _EXCEPTION.match(line, column):
            ended.append(column)
    return ended


def _traceback(begun: _Begun, exception: int, line: str) -> Traceback:
    return Traceback(
        start=begun.start,
        exception=exception,
        has_header=begun.has_header,
        is_pointer=_POINTER.search(line) is not None,
    )
