# SPDX-License-Identifier: Apache-2.0
"""Reads the small files of /proc and /sys: one value each, or a name and a value a line."""

from pathlib import Path


def text_of(path: Path) -> str | None:
    """The file's text without the space around it; None if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def number_of(path: Path) -> int | None:
    """The whole number in a file; None if it cannot be read, or holds something else ("max")."""
    return _number(text_of(path) or "")


def numbers_of(path: Path) -> dict[str, int]:
    """The numbers of a file with `name number` lines, such as meminfo; empty if it cannot be read.

    A colon after the name and a unit after the number are left out.
    """
    numbers = {}
    for line in (text_of(path) or "").splitlines():
        words = line.replace(":", " ").split()
        if len(words) < 2:
            continue
        number = _number(words[1])
        if number is not None:
            numbers[words[0]] = number
    return numbers


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
