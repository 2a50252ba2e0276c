# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: which processes write into the pipe that another one reads.

`$!` of `server | ts | tee log &` is tee: what answers is at the other end of the pipes.
"""

import os
import stat
from collections.abc import Iterable

from ci_doctor.system.processes.process_table import Kin, look_up, read_table

# A pipe, named or not: its device and its inode.
_Pipe = tuple[int, int]


def reads_pipe(pid: int) -> bool:
    """Whether its stdin is a pipe."""
    return _pipe(pid, 0) is not None


def writers_into(pid: int) -> frozenset[int]:
    """Who writes into the pipe that `pid` reads, also through other commands of its pipeline."""
    own = look_up(pid)
    first = _pipe(pid, 0)
    if own is None or first is None:
        return frozenset()
    table = tuple(read_table())
    pipes, found = {first}, set[int]()
    while more := [kin for kin in _writers(table, pipes) if kin.pid not in found | {pid}]:
        found.update(kin.pid for kin in more)
        # Commands of one pipeline have one parent. The stdin of any other is the job's own.
        inputs = (_pipe(kin.pid, 0) for kin in more if kin.parent == own.parent)
        pipes.update(pipe for pipe in inputs if pipe is not None)
    return frozenset(found)


def ends_pipeline(pid: int, writers: Iterable[int]) -> bool:
    """Whether one of the `writers` is a command beside `pid`, as a shell starts those of a pipeline."""
    own = look_up(pid)
    others = [look_up(writer) for writer in writers]
    return own is not None and any(kin and kin.parent == own.parent for kin in others)


def descends_from(pid: int, ancestors: frozenset[int]) -> bool:
    """Whether `pid` is one of `ancestors`, or below one of them."""
    while pid and pid not in ancestors:
        kin = look_up(pid)
        pid = kin.parent if kin is not None else 0
    return pid in ancestors


def _writers(table: Iterable[Kin], pipes: set[_Pipe]) -> Iterable[Kin]:
    for kin in table:
        if _pipe(kin.pid, 1) in pipes or _pipe(kin.pid, 2) in pipes:
            yield kin


def _pipe(pid: int, descriptor: int) -> _Pipe | None:
    """The pipe behind a descriptor; None if it is something else, or if we may not look."""
    try:
        status = os.stat(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH116 - of every process
    except OSError:
        return None
    if not stat.S_ISFIFO(status.st_mode):
        return None
    return status.st_dev, status.st_ino
