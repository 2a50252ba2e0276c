# SPDX-License-Identifier: Apache-2.0
"""Figures and places in words, the same in every rendering for people."""

from ci_doctor.model.finding import Evidence


def duration(seconds: float) -> str:
    """`7.3 s`, `3 min 12 s`, `1 h 02 min`."""
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
    """True for prose that quotes its commands in backticks; anything else is pasted whole and never broken."""
    return "`" in remedy
