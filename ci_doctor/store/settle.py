# SPDX-License-Identifier: Apache-2.0
"""Acts on nothing: waits until a tree has not changed for a moment, and compares two looks at it."""

import os
import time
from collections.abc import Callable, Iterable
from typing import Final

from ci_doctor.store.deadline import Deadline
from ci_doctor.store.walk import TreeFile, WalkedTree

# Well above the steps of a file system's times (10 ms at most on local ones): a file that is older
# when it is read cannot be written later without another time.
QUIET_NS: Final = 250_000_000
_MOST_S: Final = 3.0


def settled(
    look: Callable[[], WalkedTree], deadline: Deadline
) -> tuple[WalkedTree, frozenset[str]]:
    """A look at the tree, and the paths of files that were being written even at the end of a wait.

    It waits for as long as the newest change is younger than 0.25 s, and 3 s at most.
    """
    wait = Deadline(min(_MOST_S, deadline.left()))
    tree = look()
    while (young := _young(tree.files)) and wait.left() > 0:
        newest = max(file.ctime_ns for file in young)
        quiet_s = (newest + QUIET_NS - time.time_ns()) / 1e9
        time.sleep(min(max(quiet_s, 0.001), wait.left()))
        tree = look()
    return tree, frozenset(file.path for file in young)


def changed(root: int, files: Iterable[TreeFile]) -> frozenset[str]:
    """The paths of those `files` that are others by now, or gone, below the open directory `root`."""
    return frozenset(file.path for file in files if not _is_same(root, file))


def _is_same(root: int, file: TreeFile) -> bool:
    try:
        status = os.stat(file.path, dir_fd=root, follow_symlinks=False)
    except OSError:
        return False
    return file.is_same(status)


def _young(files: Iterable[TreeFile]) -> list[TreeFile]:
    limit = time.time_ns() - QUIET_NS
    return [file for file in files if file.ctime_ns > limit]
