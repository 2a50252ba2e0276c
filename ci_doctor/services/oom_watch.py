# SPDX-License-Identifier: Apache-2.0
"""Reads cgroups: whether the OOM killer ended a watched process."""

import signal
from typing import Literal

from ci_doctor.services.subject import Death
from ci_doctor.system.processes.kernel_words import MemoryEvents, oom_cause


class OomWatch:
    """The OOM counters of a cgroup, compared at each death with those of the death before.

    `scope` is the process whose cgroup is read.
    """

    def __init__(self, scope: int | Literal["self"] = "self") -> None:
        self._scope = scope
        self._memory = MemoryEvents.read(scope)

    def death(self, returncode: int | None, peak_rss: int | None = None) -> Death:
        """Return how a process ended, and whose memory ran out if the OOM killer ended it."""
        cause = None
        # The OOM killer sends only SIGKILL.
        if returncode == -signal.SIGKILL:
            # The counters are those of the whole cgroup: only what they grew by is about this end.
            before, self._memory = self._memory, MemoryEvents.read(self._scope)
            cause = oom_cause(before, self._memory)
        if cause is None:
            return Death(returncode=returncode, peak_rss=peak_rss)
        return Death(
            returncode=returncode, peak_rss=peak_rss, oom=cause.describe(), host_oom=cause.host
        )
