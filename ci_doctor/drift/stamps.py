# SPDX-License-Identifier: Apache-2.0
"""Reads files: whether the places that decide what is installed are as they were."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

# In a report directory.
SNAPSHOT_FILE: Final = "environment.json"


def stamps_of(paths: Iterable[Path]) -> dict[str, str]:
    """Path -> what a change of it changes; empty for one that does not exist.

    An installer adds to a directory, or replaces it: both are seen.
    """
    stamps = {}
    for path in paths:
        try:
            status = path.stat()
            stamps[str(path)] = f"{status.st_ino} {status.st_mtime_ns}"
        except OSError:
            stamps[str(path)] = ""
    return stamps


def are_current(stamps: Mapping[str, str]) -> bool:
    """Whether nothing has changed since these were taken."""
    return stamps_of(map(Path, stamps)) == stamps
