# SPDX-License-Identifier: Apache-2.0
"""Reads processes: holds one that is not our child, and knows when and how it ends."""

import os
from pathlib import Path
from typing import Self

from ci_doctor.system import clock
from ci_doctor.system.processes.exit_status import exit_status
from ci_doctor.system.processes.process import has_ended
from ci_doctor.system.processes.process_table import Kin, look_up


class ExternalProcess:
    """A process that somebody else has started; `pidfd` becomes readable when it has ended, reaped or not.

    `kin` is None where /proc hides it. `started_at` is monotonic seconds, to a hundredth or so.
    """

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.kin: Kin | None = look_up(pid)
        self.started_at = clock.now() - (_age_s(self.kin) if self.kin else 0.0)

    @classmethod
    def open(cls, pid: int) -> Self | None:
        """The process that has `pid` now, a zombie too; None where there is none.

        Raises OSError where the system does not let us hold it: EINVAL for the id of a thread, no file descriptor left.
        """
        try:
            return cls(pid, os.pidfd_open(pid))
        except ProcessLookupError:
            return None

    @property
    def name(self) -> str:
        """`python3 (pid 42)`."""
        return f"{self.kin.name} (pid {self.pid})" if self.kin else f"pid {self.pid}"

    def has_ended(self) -> bool:
        """Whether it has, all of its threads with it."""
        return has_ended(self.pidfd)

    def returncode(self) -> int | None:
        """Once it has ended: the exit code, or the negative signal number; None where the system does not tell."""
        return exit_status(self.pidfd, self.pid, self.kin.started) if self.kin else None

    def close(self) -> None:
        """Give the pidfd back; may be called again."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


def _age_s(kin: Kin) -> float:
    """Both are on the clock that also counts the time asleep (proc_uptime(5))."""
    try:
        uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    return max(0.0, uptime_s - kin.started / os.sysconf("SC_CLK_TCK"))
