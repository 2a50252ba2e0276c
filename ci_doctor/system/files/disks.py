# SPDX-License-Identifier: Apache-2.0
"""Reads file systems: which local disks are full."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# File systems of this machine, of which statvfs(3) waits for no server.
_LOCAL_DISKS: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "tmpfs", "vfat"}
)
# A program that fails for lack of space removes a part of what it has written.
_NEARLY: Final = 0.01


def full_disks() -> tuple[Path, ...]:
    """The places of local disks that are full now."""
    # Python is not asked for a folder for temporary files: on a full disk it names none.
    places = (*_local_disks(), Path(), Path(os.environ.get("TMPDIR", "/tmp")))  # noqa: S108
    return tuple(place for place in places if is_full(place))


def _local_disks() -> Iterator[Path]:
    """Where the local file systems are mounted that this process sees (proc_pid_mounts(5))."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mounts").read_text(errors="replace").splitlines():
            _, place, kind, *_ = line.split(" ")
            # A place with a space or a backslash stands there in octal digits, and is left out.
            if kind in _LOCAL_DISKS and "\\" not in place:
                yield Path(place)


def is_full(place: Path) -> bool:
    """Whether the disk of `place`, or of the nearest folder above it, has hardly a block or no file left."""
    for existing in (place, *place.parents):
        try:
            disk = os.statvfs(existing)
        except OSError:
            continue
        # A file system keeps some blocks for root alone.
        free = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
        is_full = disk.f_blocks > 0 and free <= _NEARLY * disk.f_blocks
        # An image that is mounted to be read is always full.
        is_written = not disk.f_flag & os.ST_RDONLY
        return is_written and (is_full or (disk.f_files > 0 and disk.f_favail == 0))
    return False
