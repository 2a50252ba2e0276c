# SPDX-License-Identifier: Apache-2.0
"""Pure. The one place that formats figures and places for people."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ci_doctor.model.finding import Evidence
from ci_doctor.model.table import Cell, Unit
from ci_doctor.model.words import shortened
from ci_doctor.render.safe_text import one_line

if TYPE_CHECKING:
    from ci_doctor.model.facts.diagnose import LogLines

UNKNOWN = "–"
# Below these, rounding would give the next unit: "1000 ms", "60.0 s", "1000 kB".
_MOST_MS = 0.0995
_MOST_S = 59.95
_MOST_KB = 999_500
_MOST_MB = 999_950_000
_LEAST_MS = 0.0005
# 100 * 0.95 may be 95.00000000000001, which is not rounded up.
_ROUNDING = 1e-9
_LINES_BEFORE = 3
_MOST_WHOLE = 1e15  # a double holds no whole numbers one by one far above this


def duration(seconds: float) -> str:
    """Seconds as `40 ms`, `0.8 s`, `7.3 s`, `3 min 12 s`, `1 h 02 min`."""
    if 0 < seconds < _LEAST_MS:
        return "< 1 ms"
    if 0 < seconds < _MOST_MS:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MOST_S:
        return f"{seconds:.1f} s"
    # Rounded before it is divided, or 119.7 s would be "1 min 60 s".
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"


def size(count: int) -> str:
    """Bytes in SI units: `812 B`, `340 kB`, `1.2 MB`, `3.2 GB`."""
    if count < 1000:
        return f"{count} B"
    if count < _MOST_KB:
        return f"{count / 1000:.0f} kB"
    if count < _MOST_MB:
        return f"{count / 1_000_000:.1f} MB"
    return f"{count / 1_000_000_000:.1f} GB"


def percent(share: float) -> str:
    """`45 %` for a share of 0.45; three digits at most."""
    return f"{100 * share:.3g} %"


def whole_percent_up(share: float) -> int:
    """86 for a share of 0.855: a bound that is rounded down would exclude what nothing excludes."""
    # A foreign report may state anything, also what is too large for a whole number.
    return math.ceil(100 * min(max(share, 0.0), 1.0) - _ROUNDING)


def probability(value: float) -> str:
    """`0.0286`: three digits of it."""
    return f"{value:.3g}"


def number(value: float | None) -> str:
    """A plain number: a whole one in full, another with six digits; `–` for an unknown one."""
    if value is None:
        return UNKNOWN
    if isinstance(value, int):
        return str(int(value))
    if value.is_integer() and abs(value) < _MOST_WHOLE:
        return str(int(value))
    return f"{value:.6g}"


def figure(cell: Cell) -> str:
    """The value of a table's cell in words, by its unit; `–` for an unknown one."""
    match cell.value:
        case None:
            return UNKNOWN
        # Before the numbers: a bool is an int.
        case bool():
            return "yes" if cell.value else "no"
        case str():
            return cell.value
        case value:
            forms = {
                Unit.SECONDS: duration,
                Unit.BYTES: lambda count: size(int(count)),
                Unit.SHARE: percent,
            }
            return number(value) if cell.unit is None else forms[cell.unit](value)


def amount(count: int, noun: str) -> str:
    """`1 finding`, `12 findings`."""
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun}s"


def short_line(text: str, most: int) -> str:
    """`text` in one line of at most `most` characters; of a megabyte only the beginning is read."""
    return shortened(one_line(text[: 4 * most]), most)


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first `most` of `names`, and how many more there are: `a, b and 3 more`."""
    shown = ", ".join(names[:most])
    rest = len(names) - most
    return f"{shown} and {rest} more" if rest > 0 else shown


def place(evidence: Evidence) -> str | None:
    """`file`, `file:12` or `file:12-14`; None for a figure without a file."""
    if evidence.file is None:
        return None
    if evidence.line is None:
        return evidence.file
    first = f"{evidence.file}:{evidence.line}"
    end = evidence.end_line
    if end is None or end <= evidence.line:
        return first
    return f"{first}-{end}"


def numbered(excerpt: "LogLines", after: int) -> Iterator[tuple[str, str, str]]:
    """The lines at the cause, three before it and `after` behind: `>` or a blank, the number, the text.

    The numbers have the same width, and the text is one line that keeps its indentation: a traceback is read by it.
    """
    first = max(0, excerpt.marked - _LINES_BEFORE)
    shown = excerpt.messages[first : excerpt.marked + after + 1]
    cells = len(str(excerpt.first_line + first + len(shown) - 1))
    for index, text in enumerate(shown, first):
        mark = ">" if index == excerpt.marked else " "
        yield mark, f"{excerpt.first_line + index:>{cells}}", text.replace("\n", " ")
