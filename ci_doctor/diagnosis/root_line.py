# SPDX-License-Identifier: Apache-2.0
"""Which one of a log's telling lines is nearest to the cause. Pure."""

import re
from collections.abc import Iterator, Sequence

from ci_doctor.diagnosis.root_lines import outside_cause

# In a traceback of Python: `  File "serve.py", line 12, in main`, after whatever a logger puts before each line.
_FRAME = re.compile(r'  File "[^"]*", line \d+')
_ERROR = re.compile(
    r"\b(?:[A-Za-z_][\w.]*(?:Error|Exception)\b|errors?\b|fatal\b|panic(?:ked)?\b|critical\b|abort(?:ed)?\b"
    r"|terminate called\b|segmentation fault\b|assertion\b|killed\b|cannot\b|failed\b)",
    re.IGNORECASE,
)


def root_index(lines: Sequence[str], fatal: str | None = None) -> int | None:
    """The index of the root line among `lines`, or None where there are none.

    In this order: the line that was taken for `fatal`, what a traceback ends with, a cause outside the change, the first
    of the last lines that speak of an error, the last line.
    """
    if not lines:
        return None
    candidates = (
        *(
            index
            for index in reversed(range(len(lines)))
            if fatal is not None and fatal in lines[index]
        ),
        *_after_frames(lines),
        *(
            index
            for index in reversed(range(len(lines)))
            if outside_cause(lines[index : index + 1])
        ),
        *(index for index, line in enumerate(lines) if _ERROR.search(line)),
    )
    return next(iter(candidates), len(lines) - 1)


def _after_frames(lines: Sequence[str]) -> Iterator[int]:
    """The first line after the last frame that stands where the traceback began: its exception."""
    frames = [
        (index, match.start()) for index, line in enumerate(lines) if (match := _FRAME.search(line))
    ]
    if frames:
        last, column = frames[-1]
        after = (
            index
            for index in range(last + 1, len(lines))
            if lines[index][column : column + 1].strip()
        )
        yield from (index for index in after if len(lines[index]) > column)


def marked(lines: Sequence[str], root: int | None, most: int) -> list[str]:
    """At most `most` of `lines`, the one at `root` among them with `> ` before it, the others as far in."""
    first = max(0, len(lines) - most)
    if root is not None:
        first = min(first, max(0, root - most // 2))
    shown = range(first, min(len(lines), first + most))
    return [f"{'> ' if index == root else '  '}{lines[index]}" for index in shown]
