# SPDX-License-Identifier: Apache-2.0
"""Acts on files: finds the process that a service has left in the background, by its pidfile."""

import asyncio
import contextlib
import os

from ci_doctor.services.instance import Instance
from ci_doctor.services.pidfile import read_pidfile
from ci_doctor.system.processes.process import exit_status
from ci_doctor.system.processes.process_table import Kin
from ci_doctor.system.processes.tree import OwnTree

# A daemon writes its pidfile within milliseconds of its start.
_PAUSE_S = 0.02


class Followed:
    """A process that is not our child; it was adopted by the guardian, which reaps it."""

    peak_rss: int | None = None

    def __init__(self, kin: Kin, pidfd: int, started_at: float) -> None:
        self.pid = kin.pid
        self._kin = kin
        self.pidfd = pidfd
        self.started_at = started_at
        self._status: int | None = None

    def wait(self) -> int | None:
        """The exit code or negative signal; None if the system does not tell."""
        if self._status is None and self.pidfd >= 0:
            self._status = exit_status(self.pidfd, self.pid, self._kin.started)
        return self._status

    def returncode(self) -> int | None:
        """The same."""
        return self.wait()

    def close(self) -> None:
        """Give the pidfd back; may be called again."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


async def follow(instance: Instance, tree: OwnTree) -> Followed:
    """Wait until the pidfile of `instance` names a process of ours, and open its pidfd.

    Ends by cancellation only.
    """
    assert instance.filled.pidfile is not None  # noqa: S101 - the caller has checked it
    while True:
        pid = read_pidfile(instance.filled.pidfile)
        # Adopted by the guardian, a daemon stays in the tree although its parent has ended.
        for kin in tree.living():
            # Only ours: the pidfile of an earlier job may name any process.
            if kin.pid == pid:
                with contextlib.suppress(ProcessLookupError):
                    return Followed(kin, os.pidfd_open(kin.pid), instance.began)
        # Not inotify: the file may be written before the process that it names is ours.
        await asyncio.sleep(_PAUSE_S)
