# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor launch` and `ci-doctor wait`."""

from pathlib import Path

from msgspec import Struct

from ci_doctor.model.facts import Facts
from ci_doctor.model.service import ServiceFailure, StopResult


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
