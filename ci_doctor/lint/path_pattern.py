# SPDX-License-Identifier: Apache-2.0
"""Pure. Globs over paths: `*` stays in one directory, `**` crosses them."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

_ANY = "**"
_CHOICE = re.compile(r"\{([^{}/]+)\}")
_MOST_CHOICES = 64


def matches(pattern: str, file: str) -> bool:
    """Whether `file` (relative, with `/`) matches `pattern`.

    `vendor/**` is all below a directory, `**/x.sh` a name in any of them, `*.{yml,yaml}` two
    endings. A pattern without a slash is looked for in each directory, as git does it.
    """
    names = file.split("/")
    return any(_fits(segments, names) for segments in _alternatives(pattern))


def _fits(segments: tuple[str, ...], names: list[str]) -> bool:
    """Whether `segments` match all of `names`: a set of positions, so that no star is tried twice."""
    positions = set(_onward(segments, 0))
    for name in names:
        reached: set[int] = set()
        for position in positions:
            if position == len(segments):
                continue
            if segments[position] == _ANY:
                reached.update(_onward(segments, position))
            elif fnmatchcase(name, segments[position]):
                reached.update(_onward(segments, position + 1))
        positions = reached
    return len(segments) in positions


def _onward(segments: tuple[str, ...], position: int) -> Iterator[int]:
    """`position`, and those behind it that `**` reaches with no directory at all."""
    yield position
    while position < len(segments) and segments[position] == _ANY:
        position += 1
        yield position


@lru_cache(maxsize=256)
def _alternatives(pattern: str) -> tuple[tuple[str, ...], ...]:
    expanded = [pattern]
    while len(expanded) < _MOST_CHOICES:
        match = _CHOICE.search(expanded[0])
        if match is None:
            break
        choices = match[1].split(",")
        expanded = [each.replace(match[0], choice, 1) for each in expanded for choice in choices]
    return tuple(map(_segments, expanded))


def _segments(pattern: str) -> tuple[str, ...]:
    if "/" not in pattern.rstrip("/"):
        pattern = f"{_ANY}/{pattern}"
    if pattern.endswith("/"):
        pattern += _ANY
    segments = pattern.strip("/").split("/")
    # All below a directory, and not the directory itself.
    if segments[-1] == _ANY:
        segments.append("*")
    return tuple(segments)
