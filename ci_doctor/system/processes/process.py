# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: one that was started for us, and how one ends, also one that is not our child."""

import errno
import fcntl
import os
import select
import signal
import struct
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from ci_doctor.system.processes.process_table import Kin, look_up

# linux/pidfd.h, Linux >= 6.15: struct pidfd_info in its first version, 64 bytes, and
# _IOWR(0xFF, 11, that).
_INFO = struct.Struct("=QQ11Ii")
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11
_INFO_EXIT = 1 << 3
# An older kernel, or one that no longer has the status.
_UNKNOWN = frozenset({errno.ENOTTY, errno.EINVAL, errno.ESRCH, errno.EBADF})

_PF_EXITING = 0x4  # linux/sched.h


def exit_status(pidfd: int | None, pid: int, started: int) -> int | None:
    """Return the exit code of an ended process, or the negative signal number; None if unknown.

    `started` (clock ticks since boot) names the process together with `pid`. /proc/PID/stat shows
    the status until the parent has waited for the process, if this user may see it. After that
    `pidfd` has it, if that was open before, on Linux >= 6.15.
    """
    kin = _permitted(pid)
    if kin is not None and kin.started == started and kin.ended:
        return os.waitstatus_to_exitcode(kin.status)
    if pidfd is None:
        return None
    return _reaped_status(pidfd)


def is_ending(pid: int, started: int) -> bool:
    """Whether that process has ended or is certain to.

    Its end may take its children with it before it is a zombie: with PR_SET_PDEATHSIG (prctl(2))
    children get their signal when the thread that made them ends, while the memory of their
    parent is still being released.
    """
    kin = look_up(pid)
    if kin is None or kin.started != started:
        return True
    if kin.state in {"Z", "X"} or kin.flags & _PF_EXITING:
        return True
    # While a group exit is under way exit_code already holds its status; it holds a stop's signal
    # too (do_group_exit and do_signal_stop in kernel/).
    return kin.status != 0 and not kin.is_stopped


def _permitted(pid: int) -> Kin | None:
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
    return look_up(pid)


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


_FROM_SHELL = 128
# What timeout(1) and a POSIX shell mean by a status; another program may mean anything by it.
_MEANT = {
    124: "as of timeout(1) at its limit",
    126: "as of a shell that may not run a command",
    127: "as of a shell that does not find a command",
}
_NEVER_STARTED = -1  # no process of /proc has this start time


class ProcessEnding(Struct, frozen=True, kw_only=True):
    """How a process ended: its exit code or negative signal number, and its peak memory in bytes.

    None if nobody knows: the guardian was killed after it had waited for the process, and before
    it reported.
    """

    returncode: int | None = None
    peak_rss: int | None = None


class Child:
    """A process that was started for us.

    `pidfd` becomes readable when it ends (pidfd_open(2)); `started_at` is monotonic seconds.
    `ending` is called with the pidfd and returns how the process ended, None for "not yet".
    """

    def __init__(
        self,
        *,
        pid: int,
        pidfd: int,
        started_at: float,
        ending: Callable[[int], ProcessEnding | None],
    ) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.started_at = started_at
        self._ask = ending
        self._ending: ProcessEnding | None = None

    @property
    def peak_rss(self) -> int | None:
        """Bytes, after the end: of this or the largest process it waited for (getrusage(2)).

        A few MiB at least: those of the guardian, from which it was forked. None if unknown.
        """
        return None if self._ending is None else self._ending.peak_rss

    def returncode(self) -> int | None:
        """The exit code, or the negative signal number; None while it lives, and if unknown."""
        if self._ending is None and (self.pidfd < 0 or has_ended(self.pidfd)):
            self._ending = self._ask(self.pidfd)
        return None if self._ending is None else self._ending.returncode

    def wait(self) -> int | None:
        """Block until it has ended (`pidfd` is readable then); return as `returncode` does."""
        if self._ending is None and self.pidfd >= 0:
            has_ended(self.pidfd, limit_s=None)
        return self.returncode()

    def close(self) -> None:
        """Give the pidfd back; may be called again."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


def has_ended(pidfd: int, limit_s: float | None = 0.0) -> bool:
    """Whether the process of `pidfd` ends within `limit_s` seconds (None: without a limit)."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    limit_ms = None if limit_s is None else max(0.0, limit_s) * 1000
    return bool(poll.poll(limit_ms))


def adopted_ending(pid: int, pidfd: int) -> ProcessEnding | None:
    """Wait for a process that has become our child; None if it lives or is no child of ours.

    `pidfd` (-1 if it is closed) makes sure that the child with this pid is the one that is meant.
    """
    try:
        # WNOWAIT: only a look. os.wait4, which alone returns the memory used, takes no pidfd.
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        if pidfd >= 0 and os.waitid(os.P_PIDFD, pidfd, look) is None:
            return None
        waited, status, usage = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        return None if pidfd >= 0 else ProcessEnding()
    if waited == 0:
        return None
    returncode = os.waitstatus_to_exitcode(status)
    return ProcessEnding(returncode=returncode, peak_rss=usage.ru_maxrss * 1024)


def observed_ending(pid: int, pidfd: int) -> ProcessEnding:
    """How a process ended whose parent does not report it; its memory is unknown."""
    kin = look_up(pid)
    started = _NEVER_STARTED
    if kin is not None and _is_still_there(pidfd):
        started = kin.started
    return ProcessEnding(returncode=exit_status(pidfd, pid, started))


def _is_still_there(pidfd: int) -> bool:
    """Whether nobody has waited for the process of `pidfd`, so that its pid is its own.

    pidfd_send_signal(2) with signal 0 finds a zombie, and no process that was reaped.
    """
    try:
        signal.pidfd_send_signal(pidfd, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; `signal 35` for one that Python has no name for, as `SIGRTMIN+1`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe_exit(returncode: int) -> str:
    """`exit code 3`, or for a negative number `killed by SIGKILL (9)`."""
    if returncode >= 0:
        return f"exit code {returncode}"
    return f"killed by {signal_name(-returncode)} ({-returncode})"


def describe_status(status: int) -> str:
    """`describe_exit`, with what shells and timeout(1) mean by it: `exit code 137 (128+9: SIGKILL)`."""
    meant = _MEANT.get(status)
    if _FROM_SHELL < status <= _FROM_SHELL + signal.NSIG - 1:
        number = status - _FROM_SHELL
        meant = f"128+{number}: {signal_name(number)}"
    if meant is None:
        return describe_exit(status)
    return f"{describe_exit(status)} ({meant})"
