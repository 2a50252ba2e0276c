# SPDX-License-Identifier: Apache-2.0
"""Pure. What a job's log says about a family's cache: the directory chosen, loads, compiles."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from msgspec import Struct

from ci_doctor.caches.families.family import CacheLineKind, Family


class LogWords(Struct, frozen=True, kw_only=True):
    """What the log says. `directories` in order; `seconds` of compiles that name theirs.

    total_s: what the library says that compiling took in all, the last time; None if it says nothing.
    """

    directories: tuple[str, ...] = ()
    loaded: int = 0
    compiled: int = 0
    seconds: tuple[float, ...] = ()
    total_s: float | None = None
    is_disabled: bool = False

    def chose_other_than(self, places: Iterable[str]) -> str | None:
        """The directory that was used in place of `places`; None if none was named, or one below them."""
        if not self.directories:
            return None
        named = [PurePosixPath(each) for each in self.directories]
        if any(each.is_relative_to(place) for place in places for each in named):
            return None
        return self.directories[0]

    def uses(self, places: Iterable[str]) -> bool:
        """Whether something was loaded, and from `places` if a directory is named."""
        return self.loaded > 0 and self.chose_other_than(places) is None


def read_lines(lines: Iterable[str], family: Family) -> LogWords:
    """What `lines` say about this family's cache."""
    patterns = [(line.kind, line.literal, re.compile(line.pattern)) for line in family.lines]
    directories: dict[str, None] = {}
    counts = dict.fromkeys(CacheLineKind, 0)
    seconds: list[float] = []
    total = None
    for line in lines:
        for kind, literal, pattern in patterns:
            match = pattern.search(line) if literal in line else None
            if match is None:
                continue
            groups = match.groupdict()
            counts[kind] += 1
            spent = _number(groups.get("seconds"))
            if groups.get("directory"):
                directories[groups["directory"]] = None
            if kind is CacheLineKind.TOTAL:
                total = spent if spent is not None else total
            elif kind is CacheLineKind.COMPILED and spent is not None:
                seconds.append(spent)
    return LogWords(
        directories=tuple(directories),
        loaded=counts[CacheLineKind.LOADED],
        compiled=counts[CacheLineKind.COMPILED],
        seconds=tuple(seconds),
        total_s=total,
        is_disabled=counts[CacheLineKind.DISABLED] > 0,
    )


def compile_seconds(words: LogWords | None) -> tuple[float, ...]:
    """The seconds that a log names: of each compile, else of all together."""
    if words is None:
        return ()
    return words.seconds or ((words.total_s,) if words.total_s is not None else ())


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
