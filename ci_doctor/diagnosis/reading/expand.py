# SPDX-License-Identifier: Apache-2.0
"""Reads the file system: which logs are meant by the names on a command line."""

import glob
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from ci_doctor.diagnosis.reading.log_name import is_log_name
from ci_doctor.diagnosis.reading.open_log import STANDARD_INPUT

# Of one folder or pattern; a folder with more is a tree of something else.
_MOST_LOGS = 1000
_MOST_ENTRIES = 100_000


class LogNames(Struct, frozen=True, kw_only=True):
    """names: logs to open, each file once, in a fixed order. unreadable: from a name to a reason.

    limited: folders and patterns with more logs than are read, with a sentence on each.
    """

    names: tuple[str, ...]
    unreadable: dict[str, str]
    limited: dict[str, str]


def expand(names: Sequence[str]) -> LogNames:
    """The logs that `names` mean: paths, `-`, folders with all logs in them, and patterns.

    In a folder and below it the files count whose names look like a log's. Hidden files do not
    count, and links to folders are not followed. A pattern (`*`, `?`, `[…]`, `**`) means all files
    that match it.
    """
    logs = _Names()
    for name in names:
        path = Path(name)
        if name == STANDARD_INPUT:
            logs.add(name)
        elif path.is_dir():
            logs.add_all(name, _logs_in(path), "holds no logs")
        elif path.exists():
            logs.add(name)
        elif glob.has_magic(name):
            logs.add_all(name, _matches(name), "no file matches")
        else:
            logs.unreadable[name] = "No such file or directory"
    return LogNames(names=tuple(logs.names), unreadable=logs.unreadable, limited=logs.limited)


class _Names:
    """What was asked for so far, each file once."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.unreadable: dict[str, str] = {}
        self.limited: dict[str, str] = {}
        self._known: set[tuple[int, int]] = set()

    def add(self, name: str) -> None:
        if name == STANDARD_INPUT:
            key = (-1, -1)
        else:
            try:
                status = os.stat(name)  # noqa: PTH116 an odd name stays as it is
            except OSError as error:
                self.unreadable[name] = error.strerror or str(error)
                return
            key = (status.st_dev, status.st_ino)
        if key not in self._known:
            self._known.add(key)
            self.names.append(name)

    def add_all(self, asked: str, names: Iterator[str], if_none: str) -> None:
        first = list(islice(names, _MOST_LOGS + 1))
        if not first:
            self.unreadable[asked] = if_none
        if len(first) > _MOST_LOGS:
            self.limited[asked] = f"only its first {_MOST_LOGS} logs are read"
        for name in first[:_MOST_LOGS]:
            self.add(name)


def _logs_in(folder: Path) -> Iterator[str]:
    """In the order of their paths; at most _MOST_ENTRIES entries are looked at."""
    entries = 0
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        entries += len(folders) + len(files)
        for name in sorted(files):
            if is_log_name(name):
                yield str(Path(parent, name))
        if entries > _MOST_ENTRIES:
            return


def _matches(pattern: str) -> Iterator[str]:
    """Files, and for a pattern without `**` the logs in the folders that match it."""
    entries = islice(glob.iglob(pattern, recursive=True), _MOST_ENTRIES)  # noqa: PTH207
    for name in sorted(entries):
        if not Path(name).is_dir():
            yield name
        elif "**" not in pattern:
            yield from _logs_in(Path(name))
