# SPDX-License-Identifier: Apache-2.0
"""Reads processes: what memory they hold, and which of it outlives them."""

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from ci_doctor.system.processes.process_table import Kin

_SHARED = "/dev/shm/"  # noqa: S108 - read, not written
# Semaphores are files there too, of some bytes; they are not what makes a machine run out of memory.
_SMALLEST_LEFT = 1024 * 1024
_MIB = 1024 * 1024


class Footprint(Struct, frozen=True, kw_only=True):
    """What processes hold: `rss` bytes (shared pages count in each), and files in /dev/shm by path with their inode."""

    rss: int = 0
    shared: dict[str, int] = {}


def footprint(processes: Iterable[Kin]) -> Footprint:
    """Of these processes now; one that is gone, or that may not be looked at, holds nothing."""
    rss = 0
    shared: dict[str, int] = {}
    for kin in processes:
        try:
            rss += int(Path(f"/proc/{kin.pid}/statm").read_text().split()[1]) * os.sysconf(
                "SC_PAGE_SIZE"
            )
            shared |= _mapped(kin.pid)
        except (OSError, IndexError, ValueError):
            continue
    return Footprint(rss=rss, shared=shared)


def left_behind(before: Footprint, living: Iterable[Kin]) -> tuple[str, ...]:
    """The shared memory of `before` that is still there and that none of `living` uses: a sentence for each file."""
    candidates = {
        path: size
        for path, inode in before.shared.items()
        if (size := _held(path, inode)) >= _SMALLEST_LEFT
    }
    if not candidates:
        return ()
    in_use = set(footprint(living).shared)
    return tuple(
        f"{path} still takes {size / _MIB:.0f} MiB of shared memory, and none of the services' processes uses it"
        for path, size in sorted(candidates.items())
        if path not in in_use
    )


def _mapped(pid: int) -> dict[str, int]:
    """Files in /dev/shm that a process maps (proc_pid_maps(5)); those that have no name any more end with it."""
    found = {}
    for line in Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines():
        if _SHARED in line:
            fields = line.split(None, 5)
            if (
                len(fields) == 6
                and fields[5].startswith(_SHARED)
                and not fields[5].endswith(" (deleted)")
            ):
                found[fields[5]] = int(fields[4])
    return found


def _held(path: str, inode: int) -> int:
    """Bytes that the file takes now, 0 where it is gone or another."""
    try:
        status = Path(path).stat()
    except OSError:
        return 0
    return status.st_blocks * 512 if status.st_ino == inode else 0
