# SPDX-License-Identifier: Apache-2.0
"""Reads processes: what memory they hold, and which of it outlives them."""

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from ci_doctor.render.formatting import size
from ci_doctor.system.processes.process_table import Kin

_SHARED = "/dev/shm/"  # noqa: S108 - read, not written
# Semaphores are files there too, of some bytes; they are not what makes a machine run out of
# memory.
_SMALLEST_LEFT = 1024 * 1024


class Footprint(Struct, frozen=True, kw_only=True):
    """What processes hold: `rss` bytes, and files in /dev/shm by path with their inode.

    Shared pages count in each process.
    """

    rss: int = 0
    shared: dict[str, int] = {}


def footprint(processes: Iterable[Kin]) -> Footprint:
    """Of these processes now; one that is gone, or that may not be read, holds nothing."""
    page = os.sysconf("SC_PAGE_SIZE")
    rss = 0
    shared: dict[str, int] = {}
    for kin in processes:
        try:
            # statm counts pages (proc_pid_statm(5)); its second figure is the resident set.
            rss += page * int(Path(f"/proc/{kin.pid}/statm").read_text().split()[1])
            # Named memory outlives its processes; private memory goes with them (shm_overview(7)).
            shared |= _mapped(kin.pid)
        except (OSError, IndexError, ValueError):
            continue
    return Footprint(rss=rss, shared=shared)


def left_behind(before: Footprint, living: Iterable[Kin]) -> tuple[str, ...]:
    """The shared memory of `before` that still exists and that none of `living` uses.

    Returns a sentence for each file.
    """
    candidates = {}
    for path, inode in sorted(before.shared.items()):
        count = _held(path, inode)
        if count >= _SMALLEST_LEFT:
            candidates[path] = count
    # The maps of every living process are read only if there is something to find.
    if not candidates:
        return ()
    in_use = footprint(living).shared
    sentences = []
    for path, count in candidates.items():
        if path not in in_use:
            sentences.append(
                f"{path} still takes {size(count)} of shared memory, and none of the services' "
                "processes uses it"
            )
    return tuple(sentences)


def _mapped(pid: int) -> dict[str, int]:
    """Files in /dev/shm that a process maps, with their inodes (proc_pid_maps(5))."""
    files = {}
    for line in Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines():
        # The sixth field is the path, which may hold blanks; anonymous memory has none.
        fields = line.split(None, 5)
        if len(fields) < 6:
            continue
        path = fields[5]
        # A file without a name ends with the processes that map it.
        if path.startswith(_SHARED) and not path.endswith(" (deleted)"):
            files[path] = int(fields[4])
    return files


def _held(path: str, inode: int) -> int:
    """Bytes that the file takes now, 0 if it is gone or another."""
    try:
        status = Path(path).stat()
    except OSError:
        return 0
    # A new file by an old name belongs to whoever made it, such as the service's next start.
    if status.st_ino != inode:
        return 0
    return status.st_blocks * 512  # stat(2): in units of 512 bytes
