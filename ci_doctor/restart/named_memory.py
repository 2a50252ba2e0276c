# SPDX-License-Identifier: Apache-2.0
"""Reads the shared memory of the machine that has a name, and so outlives its makers.

That is what lies in /dev/shm (shm_overview(7)), and System V's segments (sysvipc(7)).
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

SHARED = "/dev/shm"  # noqa: S108 - read, not written
# Shorter numbers stand in names by chance.
_NUMBER = re.compile(r"(?<!\d)\d{3,}(?!\d)")


class SharedFile(Struct, frozen=True, kw_only=True):
    """A file in /dev/shm: its inode, its owner, and the bytes that it takes."""

    inode: int
    uid: int
    size: int


class SharedSegment(Struct, frozen=True, kw_only=True):
    """A System V segment: who made and last used it, how many are attached, the bytes it takes."""

    pids: tuple[int, int]
    attached: int
    size: int


class NamedMemory(Struct, frozen=True, kw_only=True):
    """What there is now: files by path, segments by id."""

    files: Mapping[str, SharedFile] = {}
    segments: Mapping[int, SharedSegment] = {}


def named_memory() -> NamedMemory:
    """Read both places; one that cannot be read is empty."""
    return NamedMemory(files=dict(_files()), segments=dict(_segments()))


def _files() -> Iterator[tuple[str, SharedFile]]:
    for folder, _, names in os.walk(SHARED):
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 - a path that may be no text
            try:
                status = os.lstat(path)
            except OSError:  # it goes just now
                continue
            # stat(2): in units of 512 bytes
            size = status.st_blocks * 512
            yield path, SharedFile(inode=status.st_ino, uid=status.st_uid, size=size)


def _segments() -> Iterator[tuple[int, SharedSegment]]:
    try:
        head, *lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    except (OSError, ValueError):  # a kernel without it
        return
    columns = head.split()
    for line in lines:
        values = dict(zip(columns, map(int, line.split()), strict=False))
        # Pages that were never touched take nothing.
        taken = values.get("rss", values["size"]) + values.get("swap", 0)
        yield (
            values["shmid"],
            SharedSegment(
                pids=(values["cpid"], values["lpid"]), attached=values["nattch"], size=taken
            ),
        )


def names_one_of(path: str, pids: Collection[int]) -> bool:
    """Whether the name of a file holds one of `pids`, as most libraries name theirs."""
    name = path.rpartition("/")[2]
    return any(int(number) in pids for number in _NUMBER.findall(name))


def open_anywhere(paths: Collection[str]) -> frozenset[str]:
    """Those of `paths` that some process of the machine has open or mapped."""
    held: set[str] = set()
    for entry in os.listdir("/proc"):  # noqa: PTH208 - thousands of Path objects
        if entry.isdigit():
            held.update(path for path in held_by(int(entry)) if path in paths)
    return frozenset(held)


def held_by(pid: int) -> dict[str, int]:
    """The files in /dev/shm that a process has open or mapped, with their inodes.

    Nothing of a process that is gone, or that we may not look into.
    """
    files: dict[str, int] = {}
    try:
        files |= _mapped(pid)
        files |= _opened(pid)
    except (OSError, ValueError):
        return files
    return files


def _mapped(pid: int) -> dict[str, int]:
    """By proc_pid_maps(5)."""
    files = {}
    for line in Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines():
        # The sixth field is the path, which may hold blanks; anonymous memory has none.
        fields = line.split(None, 5)
        if len(fields) == 6 and _is_shared(fields[5]):
            files[fields[5]] = int(fields[4])
    return files


def _opened(pid: int) -> dict[str, int]:
    """By proc_pid_fd(5): a file need not be mapped to take memory."""
    files = {}
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):  # noqa: PTH208
        try:
            path = os.readlink(f"{folder}/{name}")  # noqa: PTH115
            if _is_shared(path):
                files[path] = os.stat(path).st_ino  # noqa: PTH116
        except OSError:  # it was closed or removed meanwhile
            continue
    return files


def _is_shared(path: str) -> bool:
    # A file without a name ends with the processes that hold it.
    return path.startswith(f"{SHARED}/") and not path.endswith(" (deleted)")
