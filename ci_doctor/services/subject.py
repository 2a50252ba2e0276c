# SPDX-License-Identifier: Apache-2.0
"""What a failure is about, as values: a service, and how its process ended. Pure."""

from pathlib import Path

from msgspec import Struct

from ci_doctor.system.processes.process import describe_exit, signal_name


class Subject(Struct, frozen=True, kw_only=True):
    """The service that a failure is about; `at` is monotonic seconds, `duration_s` its age.

    `when` replaces its age in sentences, if that says nothing about its death.
    """

    name: str
    pid: int
    port: int
    log: Path
    was_ready: bool
    at: float
    duration_s: float
    when: str | None = None


class Death(Struct, frozen=True, kw_only=True):
    """How a process ended.

    `returncode` is as subprocess has it, None if nobody knows; `peak_rss` is bytes. `oom` tells
    whose memory ran out, if the kernel killed for lack of it; `host_oom` that it was the machine's.
    """

    returncode: int | None
    peak_rss: int | None = None
    oom: str | None = None
    host_oom: bool = False

    @property
    def exit_code(self) -> int | None:
        """The exit code; None if a signal ended it."""
        if self.returncode is None or self.returncode < 0:
            return None
        return self.returncode

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it, if one did."""
        if self.returncode is None or self.returncode >= 0:
            return None
        return signal_name(-self.returncode)

    def words(self) -> str:
        """`exit code 3`, `killed by SIGKILL (9)`."""
        if self.returncode is None:
            return "its exit code is unknown"
        return describe_exit(self.returncode)
