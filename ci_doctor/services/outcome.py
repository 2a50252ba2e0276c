# SPDX-License-Identifier: Apache-2.0
"""What became of a service, as values: failures, events, and what stopping left behind."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.model.finding import Evidence


class FailureKind(StrEnum):
    """Why a service is of no use.

    `died`: its process ended (exit code 0 too: a server runs until it is stopped). `not-ready`: it lives and did not
    become ready in time. `outside`: the cause lies plainly outside the change under test (port owned by another
    process, no disk, no memory), so that a retry elsewhere is right.
    """

    DIED = "died"
    NOT_READY = "not-ready"
    OUTSIDE = "outside"


class ServiceFailure(Struct, frozen=True, kw_only=True):
    """The first service of a group that failed, before or after it was ready.

    `message` is one sentence without a full stop. `exit_code` is set where the process ended by itself, `signal`
    ("SIGKILL") where a signal ended it, neither where it did not end. `log` is None where the process was never
    started. `tail` are the log's telling lines, `tail_line` and `tail_end_line` their 1-based place in it (None in a
    log too long to count). `duration_s` runs from the service's start to the failure.
    """

    kind: FailureKind
    service: str
    message: str
    exit_code: int | None = None
    signal: str | None = None
    log: str | None = None
    tail: tuple[str, ...] = ()
    tail_line: int | None = None
    tail_end_line: int | None = None
    was_ready: bool = False
    duration_s: float

    def evidence(self) -> tuple[Evidence, ...]:
        """The log lines that a finding can point at; empty where nothing was written."""
        if self.log is None:
            return ()
        excerpt = "\n".join(self.tail) or None
        return (Evidence(file=self.log, line=self.tail_line, end_line=self.tail_end_line, excerpt=excerpt),)


class EventKind(StrEnum):
    """What can happen to a service, in the order in which it does."""

    STARTED = "started"
    READY = "ready"
    DIED = "died"
    STOPPING = "stopping"
    KILLED = "killed"
    STOPPED = "stopped"


class ServiceEvent(Struct, frozen=True, kw_only=True):
    """Something happened to `service`.

    `at` is monotonic seconds (system.clock). `duration_s` counts from the service's start (for `stopped`, from
    `stopping`). `killed` tells of one process that SIGKILL ended, under its own `pid` and `name`; `service` is None
    where that is a process further down.
    """

    kind: EventKind
    service: str | None
    at: float
    pid: int | None = None
    log: str | None = None
    duration_s: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    name: str | None = None


class Process(Struct, frozen=True, kw_only=True):
    """A process as a reader knows it."""

    pid: int
    name: str


class StopResult(Struct, frozen=True, kw_only=True):
    """`killed` needed SIGKILL; `survivors` outlived even that (uninterruptible sleep, or another user's)."""

    killed: tuple[Process, ...] = ()
    survivors: tuple[Process, ...] = ()
    duration_s: float
