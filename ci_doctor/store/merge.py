# SPDX-License-Identifier: Apache-2.0
"""Pure. Which files of a manifest join a tree that exists: nothing in it is ever overwritten."""

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import msgspec

from ci_doctor.store.manifest import FileEntry


class Merge(enum.StrEnum):
    """How the entries of a cache join those that are there.

    A group is installed whole or not at all: `union`: each file is a group; `last-writer`: the files
    of one directory are (an index written in place belongs to its neighbours); `whole-directories`:
    each directory at the top is, and it is installed by one rename.
    """

    UNION = "union"
    LAST_WRITER = "last-writer"
    WHOLE_DIRECTORIES = "whole-directories"


class PresentFile(msgspec.Struct, frozen=True, kw_only=True):
    """What stands at a path of the tree already."""

    bytes: int
    mtime_ns: int


class MergePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Files to install one by one, directories to install by a rename, and how many files stay as they are."""

    files: tuple[FileEntry, ...]
    directories: dict[str, tuple[FileEntry, ...]]
    kept_existing: int

    def entries(self) -> tuple[FileEntry, ...]:
        """All files that are fetched."""
        return (*self.files, *(entry for group in self.directories.values() for entry in group))


def default_group(merge: Merge) -> Callable[[str], str]:
    """The function from a path to the name of its group."""
    match merge:
        case Merge.UNION:
            return lambda path: path
        case Merge.LAST_WRITER:
            return lambda path: path.rpartition("/")[0] or path
        case Merge.WHOLE_DIRECTORIES:
            return lambda path: path.partition("/")[0]


def plan_merge(
    entries: Iterable[FileEntry],
    merge: Merge,
    group: Callable[[str], str],
    present: Mapping[str, PresentFile],
) -> MergePlan:
    """The plan for `entries`, given what is present at their paths and at the names of groups.

    A group of which something else is present stays as it is. A file with the size and the time of
    its entry counts as the same: a restore that was killed has put it there, and this one goes on.
    """
    groups: dict[str, list[FileEntry]] = defaultdict(list)
    for entry in entries:
        groups[group(entry.path)].append(entry)
    files: list[FileEntry] = []
    directories: dict[str, tuple[FileEntry, ...]] = {}
    kept = 0
    for name, members in groups.items():
        whole = merge is Merge.WHOLE_DIRECTORIES and _is_directory(name, members)
        missing = [entry for entry in members if entry.path not in present]
        if whole and name not in present:
            directories[name] = tuple(members)
        elif not whole and all(_is_same(entry, present) for entry in members):
            files += missing
            kept += len(members) - len(missing)
        else:
            kept += len(members)
    return MergePlan(files=tuple(files), directories=directories, kept_existing=kept)


def _is_directory(name: str, members: list[FileEntry]) -> bool:
    return all(entry.path.startswith(f"{name}/") for entry in members)


def _is_same(entry: FileEntry, present: Mapping[str, PresentFile]) -> bool:
    there = present.get(entry.path)
    return there is None or (there.bytes, there.mtime_ns) == (entry.bytes, entry.mtime_ns)
