# SPDX-License-Identifier: Apache-2.0
"""Reads processes: what memory they hold, and which of it outlives them."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil
from msgspec import Struct

from ci_doctor.render.formatting import size
from ci_doctor.restart.named_memory import (
    SHARED,
    NamedMemory,
    held_by,
    named_memory,
    names_one_of,
    open_anywhere,
)
from ci_doctor.system.processes.process_table import Kin, look_up

# Semaphores are files there too, of some bytes; they are not what makes a machine run out of
# memory.
_SMALLEST_LEFT = 1024 * 1024
_NEW = f"it is new in {SHARED} since the services were started, and no process has it open"


class Footprint(Struct, frozen=True, kw_only=True):
    """What processes hold: `rss` bytes, and files in /dev/shm by path with their inode.

    Shared pages count in each process. `pids` are the processes that were read.
    """

    rss: int = 0
    shared: dict[str, int] = {}
    pids: frozenset[int] = frozenset()


class LeftMemory(Struct, frozen=True, kw_only=True):
    """Shared memory that nobody uses: `name` is the path of a file or the id of a segment."""

    name: str
    sentence: str


def footprint(processes: Iterable[Kin]) -> Footprint:
    """Of these processes now; one that is gone, or that may not be read, holds nothing."""
    rss = 0
    shared: dict[str, int] = {}
    pids = set()
    for kin in processes:
        try:
            resident = psutil.Process(kin.pid).memory_info().rss
        except psutil.Error:
            continue
        # Named memory outlives its processes; private memory goes with them (shm_overview(7)).
        held = held_by(kin.pid)
        now = look_up(kin.pid)
        # Another process may have the pid by now: what was read is then not this one's.
        if now is None or now.identity != kin.identity:
            continue
        rss += resident
        shared |= held
        pids.add(kin.pid)
    return Footprint(rss=rss, shared=shared, pids=frozenset(pids))


def left_behind(
    before: Footprint,
    living: Iterable[Kin],
    earlier: NamedMemory | None = None,
) -> tuple[LeftMemory, ...]:
    """The shared memory that still exists and that none of `living` uses.

    It is what `before` held. With `earlier`, what there was before the services were started, also
    what is new since then and held by no process of the machine: a file with the pid of one of its
    processes in its name, a System V segment that one of them made or used last.
    """
    candidates = {}
    for path, inode in sorted(before.shared.items()):
        count = _held(path, inode)
        if count >= _SMALLEST_LEFT:
            candidates[path] = count
    left = list(_unused(candidates, living))
    if earlier is not None:
        now = named_memory()
        for path, count in _new_files(before, earlier, now).items():
            if names_one_of(path, before.pids):
                sentence = f"{path} takes {size(count)} of shared memory: {_NEW}"
                left.append(LeftMemory(name=path, sentence=sentence))
        left.extend(_new_segments(before, earlier, now))
    return tuple(left)


def of_unknown_owner(before: Footprint, earlier: NamedMemory) -> tuple[str, ...]:
    """New files that nobody uses, and that another job may have made as well, a sentence for each."""
    sentences = []
    for path, count in _new_files(before, earlier, named_memory()).items():
        if not names_one_of(path, before.pids):
            sentences.append(f"{path} ({size(count)})")
    return tuple(sentences)


def _unused(candidates: dict[str, int], living: Iterable[Kin]) -> Iterator[LeftMemory]:
    # The maps of every living process are read only if there is something to find.
    if not candidates:
        return
    in_use = footprint(living).shared
    for path, count in candidates.items():
        if path not in in_use:
            sentence = (
                f"{path} still takes {size(count)} of shared memory, and none of the services' "
                "processes uses it"
            )
            yield LeftMemory(name=path, sentence=sentence)


def _new_files(before: Footprint, earlier: NamedMemory, now: NamedMemory) -> dict[str, int]:
    """Files that came up meanwhile and that no process has open or mapped, with their bytes."""
    candidates = {}
    for path, file in sorted(now.files.items()):
        known = earlier.files.get(path)
        is_new = known is None or known.inode != file.inode
        # What it held is judged already. Another user's files are not its.
        if not is_new or path in before.shared or file.uid != os.getuid():
            continue
        if file.size >= _SMALLEST_LEFT:
            candidates[path] = file.size
    if not candidates:
        return {}
    in_use = open_anywhere(candidates)
    return {path: count for path, count in candidates.items() if path not in in_use}


def _new_segments(
    before: Footprint, earlier: NamedMemory, now: NamedMemory
) -> Iterator[LeftMemory]:
    """System V segments to which nobody is attached any more."""
    for number, segment in sorted(now.segments.items()):
        if number in earlier.segments or segment.attached or segment.size < _SMALLEST_LEFT:
            continue
        if before.pids.intersection(segment.pids):
            sentence = (
                f"System V segment {number} takes {size(segment.size)} of shared memory, and nobody "
                f"is attached to it (`ipcrm -m {number}` removes it)"
            )
            yield LeftMemory(name=f"segment {number}", sentence=sentence)


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
