# SPDX-License-Identifier: Apache-2.0
"""Reads how a process ended that is not our child, and so cannot be waited for."""

import contextlib
import errno
import fcntl
import os
import struct
from pathlib import Path

from msgspec import Struct

# linux/pidfd.h, Linux >= 6.15: struct pidfd_info in its first version, 64 bytes, and
# _IOWR(0xFF, 11, that).
_INFO = struct.Struct("=QQ11Ii")
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11
_INFO_EXIT = 1 << 3
# An older kernel, or one that no longer has the status.
_UNKNOWN = frozenset({errno.ENOTTY, errno.EINVAL, errno.ESRCH, errno.EBADF})

_PF_EXITING = 0x4  # linux/sched.h
_ZOMBIE = frozenset("ZX")
_STOPPED = frozenset("Tt")


class _Stat(Struct, frozen=True, kw_only=True):
    """Fields of proc_pid_stat(5).

    state (3), flags (9), num_threads (20), starttime (22) and exit_code (52).
    """

    state: str
    flags: int
    threads: int
    started: int
    status: int

    @property
    def ended(self) -> bool:
        return self.state in _ZOMBIE and self.threads <= 1


def exit_status(pidfd: int | None, pid: int, started: int) -> int | None:
    """Return the exit code of an ended process, or the negative signal number; None if unknown.

    `started` (clock ticks since boot) names the process together with `pid`. /proc/PID/stat shows
    the status until the parent has waited for the process, if this user may see it. After that
    `pidfd` has it, if that was open before, on Linux >= 6.15.
    """
    stat = _read_permitted(pid)
    if stat is not None and stat.started == started and stat.ended:
        return os.waitstatus_to_exitcode(stat.status)
    if pidfd is None:
        return None
    return _reaped_status(pidfd)


def is_ending(pid: int, started: int) -> bool:
    """Whether that process has ended or is certain to.

    Its end may take its children with it before it is a zombie: with PR_SET_PDEATHSIG (prctl(2))
    children get their signal when the thread that made them ends, while the memory of their
    parent is still being released.
    """
    stat = _read(pid)
    if stat is None or stat.started != started:
        return True
    if stat.state in _ZOMBIE or stat.flags & _PF_EXITING:
        return True
    # While a group exit is under way exit_code already holds its status; it holds a stop's signal
    # too (do_group_exit and do_signal_stop in kernel/).
    return stat.status != 0 and stat.state not in _STOPPED


def _read(pid: int) -> _Stat | None:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            return _parse(os.read(descriptor, 4096))
        finally:
            os.close(descriptor)
    return None


def _parse(text: bytes) -> _Stat:
    # After the name, which may itself hold spaces and parentheses.
    fields = text.rpartition(b")")[2].split()
    return _Stat(
        state=fields[0].decode(),
        flags=int(fields[6]),
        threads=int(fields[17]),
        started=int(fields[19]),
        status=int(fields[49]),
    )


def _read_permitted(pid: int) -> _Stat | None:
    """The row of a process, if its exit code is the true one.

    To others the kernel shows 0 (proc_pid_stat(5), PTRACE_MODE_READ). /proc/PID/exe needs the
    same right. A zombie has no such link, so that "no such file" means that the right is there.
    """
    try:
        Path(f"/proc/{pid}/exe").readlink()
    except PermissionError:
        return None
    except OSError:
        pass
    return _read(pid)


def _reaped_status(pidfd: int) -> int | None:
    buffer = bytearray(_INFO.pack(_INFO_EXIT, *[0] * 13))
    try:
        fcntl.ioctl(pidfd, _GET_INFO, buffer, True)
    except OSError as error:
        if error.errno in _UNKNOWN:
            return None
        raise
    mask, *_, status = _INFO.unpack(buffer)
    if not mask & _INFO_EXIT:
        return None
    return os.waitstatus_to_exitcode(status)
