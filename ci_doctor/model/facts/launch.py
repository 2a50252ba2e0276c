# SPDX-License-Identifier: Apache-2.0
"""Pure. What became of services: why one failed, what it left behind; the facts of `ci-doctor launch` and `ci-doctor wait`."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from ci_doctor.model.cause import Cause
from ci_doctor.model.facts import Facts
from ci_doctor.model.outcome import ErrorKind, Failure, Verdict


class LeftKind(StrEnum):
    """What can outlive the process that made it."""

    SHARED_MEMORY = "shared memory"
    SEMAPHORE = "semaphore"
    SYSV_SHARED_MEMORY = "System V shared memory"
    SYSV_SEMAPHORES = "System V semaphores"
    SYSV_QUEUE = "System V message queue"
    TEMPORARY_FILE = "temporary file"
    TEMPORARY_DIRECTORY = "temporary directory"
    SOCKET = "unix socket"
    PORT = "port"
    PROCESS = "process"


class LeftThing(Struct, frozen=True, kw_only=True):
    """One thing that `services` have left behind; `why` says how that is known.

    `name` is a path, the id of System V, or a port. `size` is bytes, None if it has none. `remedy`
    removes it. `strict` tells that one of the services may leave nothing. `known` is what it is, if a
    known program leaves such things by design.
    """

    kind: LeftKind
    name: str
    services: tuple[str, ...]
    why: str
    size: int | None = None
    remedy: str | None = None
    strict: bool = False
    known: str | None = None


class LeftBehind(Struct, frozen=True, kw_only=True):
    """What was found after a stop.

    `unknown` counts by folder what came up meanwhile and belongs to nobody known. `unseen` names
    what could not be looked into and concerns strict services: processes, places, or the reason.
    """

    things: tuple[LeftThing, ...] = ()
    unknown: Mapping[str, int] = {}
    unseen: tuple[str, ...] = ()


class FailureKind(StrEnum):
    """Why a service is of no use.

    `died`: its process ended (exit code 0 too: a server runs until it is stopped). `not-ready`: it
    lives and did not become ready in time. `outside`: the cause lies plainly outside the change
    under test (port owned by another process, no disk, no memory), so that a retry elsewhere is
    right.
    """

    DIED = "died"
    NOT_READY = "not-ready"
    OUTSIDE = "outside"


class NamedProcess(Struct, frozen=True, kw_only=True):
    """A process as a person reads of it."""

    pid: int
    name: str


class StopResult(Struct, frozen=True, kw_only=True):
    """What stopping a group has brought to light.

    `killed` needed SIGKILL; `survivors` outlived even that (uninterruptible sleep, or another
    user's). `not_released` is what was still held when the time for it was up, `cut_logs` which
    logs have lost their middle, `problems` what else went wrong; these three are sentences.
    `left_behind` is what is still on the machine.
    """

    killed: tuple[NamedProcess, ...] = ()
    survivors: tuple[NamedProcess, ...] = ()
    duration_s: float
    not_released: tuple[str, ...] = ()
    cut_logs: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    left_behind: LeftBehind = LeftBehind()


class ServiceFailure(Struct, frozen=True, kw_only=True):
    """A service that failed, before or after it was ready.

    `message` is one sentence without a full stop; `at` is monotonic seconds. `exit_code` is set if
    the process ended by itself, `signal` ("SIGKILL") if a signal ended it, neither if it did not
    end. With `descendant` all three are about that process below the service, and the service
    itself lived on; `successor` has its name and came after the service was ready. `exit_unknown` tells that the process ended and nobody knows how. `log` is None
    if the process was never started. `tail` are the log's root lines, `tail_root` the index of the
    root line among them, `tail_line` and `tail_end_line` their 1-based place in the log (None if
    nobody counted). `cause` is what the log names as the cause, if anything, `elsewhere`
    what another service's log names. `duration_s` runs from the service's start to the failure.
    `peak_rss` is bytes. `misuse` is the log line that says that the command cannot run as it is
    written, `misused` its part that names the file, module or option. `oom` tells whose memory ran
    out, if the kernel killed for lack of it. `fatal` is the log line that was taken for the end.
    `processes` are lines about each process of a service that hangs. `is_of_job`: what lies outside the service is a
    process of this job, so that the job meets it again in another run.
    `consequences` are sentences on what failed after it, `stopped` is what the stop left behind if
    the group never came to be.
    """

    kind: FailureKind
    service: str
    message: str
    at: float = 0.0
    pid: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    exit_unknown: bool = False
    descendant: NamedProcess | None = None
    successor: NamedProcess | None = None
    peak_rss: int | None = None
    oom: str | None = None
    fatal: str | None = None
    processes: tuple[str, ...] = ()
    consequences: tuple[str, ...] = ()
    stopped: StopResult | None = None
    log: str | None = None
    tail: tuple[str, ...] = ()
    tail_root: int | None = None
    tail_line: int | None = None
    tail_end_line: int | None = None
    cause: Cause | None = None
    elsewhere: Cause | None = None
    was_ready: bool = False
    misuse: str | None = None
    misused: str | None = None
    is_of_job: bool = False
    duration_s: float

    @property
    def may_be_retried(self) -> bool:
        """Whether the cause lies outside the job, so that another run may do without it."""
        return self.kind is FailureKind.OUTSIDE and not self.is_of_job

    @property
    def verdict(self) -> Verdict:
        """`infra` if the cause lies outside the job, else `failed`."""
        if self.may_be_retried:
            return Verdict.INFRA
        # Not a regression: nothing was compared with a run before the change.
        return Verdict.FAILED

    @property
    def usage_error(self) -> Failure | None:
        """The error of usage if the command cannot run as it is written; else None."""
        if self.misuse is None or self.kind is not FailureKind.DIED:
            return None
        return Failure(
            message=f"the command of {self.service} cannot run as it is written: {self.misuse}",
            hint="correct the command; on another machine it would end in the same way",
            kind=ErrorKind.USAGE,
        )


# --- the facts of `ci-doctor launch` and `ci-doctor wait` ---


class ServiceRun(Struct, frozen=True, kw_only=True):
    """One start of a service: how it went so far. `start` counts those of the service.

    `started_at`, `ended_at` are monotonic seconds, `ready_s` what it took to become ready.
    `exit_code` or `signal` tell how its process ended, `by_itself` that nobody had requested it.
    `peak_rss` is bytes.
    """

    name: str
    start: int = 1
    pid: int | None = None
    log: str | None = None
    url: str | None = None
    started_at: float | None = None
    ready_s: float | None = None
    ended_at: float | None = None
    by_itself: bool = False
    exit_code: int | None = None
    signal: str | None = None
    peak_rss: int | None = None

    @property
    def duration_s(self) -> float:
        """From its start to its end; 0 if it was not started or has not ended."""
        if self.started_at is None or self.ended_at is None:
            return 0.0
        return self.ended_at - self.started_at

    @property
    def how(self) -> str:
        """`exit code 3`, `killed by SIGKILL`."""
        if self.signal:
            return f"killed by {self.signal}"
        if self.exit_code is not None:
            return f"exit code {self.exit_code}"
        return "its exit code is unknown"


class ClientRun(Struct, frozen=True, kw_only=True):
    """The client: its words as run, `returncode` as subprocess has it.

    None stands for an unknown end, and for one that was never run.
    `unable` tells why it could not be run, as errno. `end_requested` tells that ci-doctor asked it
    to end, so that its end is no news.
    """

    words: tuple[str, ...]
    returncode: int | None = None
    duration_s: float = 0.0
    peak_rss: int | None = None
    end_requested: bool = False
    unable: int | None = None

    @property
    def name(self) -> str:
        """`pytest` for `/usr/bin/pytest`."""
        return Path(self.words[0]).name


class LaunchFacts(Facts, frozen=True, kw_only=True):
    """The services by name, the client, the first failure, the signal that ended it, the stop.

    `beside` is what a service that lived tells of a client that failed.
    """

    services: dict[str, ServiceRun]
    client: ClientRun | None = None
    cause: ServiceFailure | None = None
    beside: ServiceFailure | None = None
    received: str | None = None
    stopped: StopResult | None = None


class WaitFacts(Facts, frozen=True, kw_only=True):
    """The process, its probe and why it is of no use, if it is not ready.

    `answer` is the last one of the probe that was not good. `waited_s` counts from the start of
    ci-doctor. `received` is the signal that ended the wait.
    """

    pid: int | None
    name: str
    probe: str
    waited_s: float
    answer: str | None = None
    cause: ServiceFailure | None = None
    received: str | None = None
