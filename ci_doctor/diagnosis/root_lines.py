# SPDX-License-Identifier: Apache-2.0
"""Chooses the lines of a log that say why its process ended, and the root line among them. Pure."""

import re
from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.diagnosis.outside_cause import cause_in
from ci_doctor.diagnosis.traceback import Traceback, tracebacks

_LAST_LINES = 15
_FRAME_LINES = 4  # the innermost two frames: each a place and the code there
_LINES_AFTER = 3  # an exception's message may run on
_LONGEST_LINE = 500

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]"
)
_ERROR = re.compile(
    r"\b(?:[A-Za-z_][\w.]*(?:Error|Exception)\b|errors?\b|fatal\b|panic(?:ked)?\b|critical\b"
    r"|abort(?:ed)?\b|terminate called\b|segmentation fault\b|assertion\b|killed\b|cannot\b"
    r"|failed\b)",
    re.IGNORECASE,
)


class Excerpt(Struct, frozen=True, kw_only=True):
    """Neighbouring lines of a text without the empty ones.

    `line` and `end_line` are 1-based and inclusive; None if there are no lines, or if nobody has
    counted. `root` is the index in `lines` of the one nearest to the cause, None if there are none.
    """

    lines: tuple[str, ...] = ()
    line: int | None = None
    end_line: int | None = None
    root: int | None = None


def root_lines(text: str, fatal: str | None = None) -> Excerpt:
    """The lines of `text` that say why it ends, and the root line among them.

    The lines are the exception of the last traceback that does not merely point to another one,
    with the innermost frames before it and the rest of its message after it. Without a traceback
    they are the last 15 lines that are not empty. The root line is the first of: the line that
    holds `fatal`, the exception, the last line with a cause outside the change, the first line that
    speaks of an error, the last line. Escape sequences are removed, lines cut at 500 characters.
    """
    lines = [_printable(line) for line in text.split("\n")]
    candidates = tracebacks(lines)
    chosen = _most_telling(candidates)
    if chosen is None:
        kept = _last_lines(lines)
    else:
        first = max(chosen.start, chosen.exception - _FRAME_LINES)
        last = chosen.exception + _LINES_AFTER
        kept = _not_empty(lines, first, last)
    if not kept:
        return Excerpt()
    # Frames without a header choose no lines, but their exception may be among those chosen.
    traceback = chosen or _last_within(candidates, kept)
    root = _root(lines, kept, traceback, fatal)
    shown = [lines[index] for index in kept]
    return Excerpt(
        lines=tuple(shown),
        line=kept[0] + 1,
        end_line=kept[-1] + 1,
        root=kept.index(root),
    )


def marked(excerpt: Sequence[str], root: int | None, most: int) -> list[str]:
    """At most `most` lines of `excerpt`, `> ` before the one at `root`, two spaces before others."""
    # The last lines, unless the root stands before them: then it is in the middle.
    first = max(0, len(excerpt) - most)
    if root is not None:
        centred = max(0, root - most // 2)
        first = min(first, centred)
    end = min(len(excerpt), first + most)
    shown = []
    for index in range(first, end):
        mark = "> " if index == root else "  "
        shown.append(mark + excerpt[index])
    return shown


def _printable(line: str) -> str:
    # A progress bar overwrites its own line: what was on screen last is what counts.
    _, _, shown = line.rstrip("\r").rpartition("\r")
    plain = _ESCAPES.sub("", shown)
    return plain[:_LONGEST_LINE].rstrip()


def _most_telling(candidates: Sequence[Traceback]) -> Traceback | None:
    """The last whole traceback that is no mere pointer, else the last pointer."""
    # Frames alone choose no excerpt: a crash dump or a linter prints them too, with no exception.
    whole = [each for each in candidates if each.has_header]
    for traceback in reversed(whole):
        if not traceback.is_pointer:
            return traceback
    if not whole:
        return None
    return whole[-1]


def _last_within(candidates: Sequence[Traceback], kept: Sequence[int]) -> Traceback | None:
    for traceback in reversed(candidates):
        if traceback.start >= kept[0]:
            return traceback
    return None


def _last_lines(lines: Sequence[str]) -> list[int]:
    kept = _not_empty(lines, 0, len(lines) - 1)
    return kept[-_LAST_LINES:]


def _not_empty(lines: Sequence[str], first: int, last: int) -> list[int]:
    """The indices from `first` to `last` of lines with something in them."""
    end = min(last + 1, len(lines))
    return [index for index in range(first, end) if lines[index]]


def _root(
    lines: Sequence[str], kept: Sequence[int], traceback: Traceback | None, fatal: str | None
) -> int:
    """The index in `lines` of the one among `kept` that is nearest to the cause."""
    if fatal is not None:
        for index in reversed(kept):
            if fatal in lines[index]:
                return index
    if traceback is not None:
        return traceback.exception
    return _root_of_plain(lines, kept)


def _root_of_plain(lines: Sequence[str], kept: Sequence[int]) -> int:
    for index in reversed(kept):
        if cause_in(lines[index]) is not None:
            return index
    # The first error, because those after it often only follow from it.
    for index in kept:
        if _ERROR.search(lines[index]) is not None:
            return index
    return kept[-1]
