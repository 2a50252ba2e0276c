# SPDX-License-Identifier: Apache-2.0
"""Figures and places in words, the same in every rendering for people. Pure."""

from typing import assert_never

from ci_doctor.model.finding import Evidence
from ci_doctor.model.table import Cell, Unit


def duration(seconds: float) -> str:
    """Seconds as `40 ms`, `0.8 s`, `7.3 s`, `3 min 12 s`, `1 h 02 min`."""
    if 0 < seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.0005 else "< 1 ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def size(count: int) -> str:
    """Bytes in SI units: `812 B`, `340 kB`, `1.2 MB`."""
    if count < 1000:
        return f"{count} B"
    if count < 999_500:
        return f"{count / 1000:.0f} kB"
    return f"{count / 1_000_000:.1f} MB"


def percent(share: float) -> str:
    """`45 %` for a share of 0.45; three digits at most."""
    return f"{100 * share:.3g} %"


def number(value: float) -> str:
    """A plain number: six significant digits at most, no exponent for whole numbers."""
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def figure(cell: Cell) -> str:
    """The value of a table's cell in words, by its unit; a dash for an unknown one."""
    match cell.value:
        case None:
            return "–"
        case bool():
            return "yes" if cell.value else "no"
        case str():
            return cell.value
        case value:
            return _with_unit(value, cell.unit)


def _with_unit(value: float, unit: Unit | None) -> str:
    match unit:
        case Unit.SECONDS:
            return duration(value)
        case Unit.BYTES:
            return size(int(value))
        case Unit.SHARE:
            return percent(value)
        case None:
            return number(value)
        case _ as never:
            assert_never(never)


def amount(count: int, noun: str) -> str:
    """`1 finding`, `12 findings`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def place(evidence: Evidence) -> str | None:
    """`file`, `file:12` or `file:12-14`; None for a figure that lies in no file."""
    if evidence.file is None:
        return None
    if evidence.line is None:
        return evidence.file
    if evidence.end_line is None or evidence.end_line <= evidence.line:
        return f"{evidence.file}:{evidence.line}"
    return f"{evidence.file}:{evidence.line}-{evidence.end_line}"


def is_sentence(remedy: str) -> bool:
    """True for prose: it quotes its commands in backticks, or ends with a full stop.

    Anything else is a command: it is pasted whole and never broken.
    """
    return "`" in remedy or remedy.endswith(".")
