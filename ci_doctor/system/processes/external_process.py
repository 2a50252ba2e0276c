# SPDX-License-Identifier: Apache-2.0
"""Reads processes: holds one that is not our child, and finds out when and how it ends."""

import os
from pathlib import Path
from typing import Self

from ci_doctor.system import clock
from ci_doctor.system.processes.process import exit_status, has_ended
from ci_doctor.system.processes.process_table import Kin, look_up


class ExternalProcess:
    """A process that ci-doctor did not start.

    `pidfd` becomes readable when it has ended, reaped or not. `kin` is None if /proc hides it.
    `started_at` is monotonic seconds, to a hundredth or so. Nobody tells how much memory it used.
    """

    peak_rss: int | None = None

    def __init__(self, pid: int, pidfd: int) -> None:
        self._returncode: int | None = None
        self.pid = pid
        self.pidfd = pidfd
        self.kin: Kin | None = look_up(pid)
        self.started_at = clock.now()
        if self.kin is not None:
            self.started_at -= _age_s(self.kin)

    @classmethod
    def open(cls, pid: int) -> Self | None:
        """The process that has `pid` now, a zombie too; None if there is none.

        Raises OSError if the system does not let us hold it: EINVAL for the id of a thread,
        EMFILE if no file descriptor is left.
        """
        try:
            return cls(pid, os.pidfd_open(pid))
        except ProcessLookupError:
            return None

    @property
    def name(self) -> str:
        """`python3 (pid 42)`."""
        if self.kin is None:
            return f"pid {self.pid}"
        return f"{self.kin.name} (pid {self.pid})"

    def has_ended(self) -> bool:
        """Whether it and all of its threads have ended."""
        return has_ended(self.pidfd)

    def wait(self) -> int | None:
        """Once it has ended: the exit code, or the negative signal number; None if unknown."""
        # Kept, because a pidfd that is closed tells nothing.
        if self._returncode is None and self.kin is not None and self.pidfd >= 0:
            self._returncode = exit_status(self.pidfd, self.pid, self.kin.started)
        return self._returncode

    def close(self) -> None:
        """Give the pidfd back; may be called again."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


def _age_s(kin: Kin) -> float:
    """Seconds since its start; 0 if /proc/uptime cannot be read.

    Uptime and start are both on the clock that counts the time asleep too (proc_uptime(5)).
    """
    try:
        uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    started_s = kin.started / os.sysconf("SC_CLK_TCK")
    return max(0.0, uptime_s - started_s)
