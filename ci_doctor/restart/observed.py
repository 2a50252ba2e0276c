# SPDX-License-Identifier: Apache-2.0
"""What was seen of a service that was killed and started again, as values. Pure."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from ci_doctor.services.outcome import NamedProcess, ServiceFailure, StopResult


class Phase(StrEnum):
    """What is going on when a request is sent. `kill` is the load until the service is dead."""

    BASELINE = "baseline"
    KILL = "kill"
    OUTAGE = "outage"
    RECOVERY = "recovery"
    AFTER = "after"


class RestartEnding(StrEnum):
    """Why the check ended: all was done (or need not be done any more), or time was up, or a signal came."""

    COMPLETE = "complete"
    BUDGET = "budget"
    SIGINT = "SIGINT"
    SIGTERM = "SIGTERM"
    SIGHUP = "SIGHUP"
    SIGQUIT = "SIGQUIT"


class Counts(Struct, frozen=True, kw_only=True):
    """The requests of a phase by how they ended; `hung` ones were given up at their time limit.

    `seconds` is how long requests were sent, `rate` the answers per second of the best pass (of phases that are made of
    whole passes). `errors` are the first three that differ, `empty` counts answers that hold no text.
    """

    ok: int = 0
    failed: int = 0
    hung: int = 0
    empty: int = 0
    seconds: float = 0.0
    rate: float | None = None
    errors: tuple[str, ...] = ()

    @property
    def sent(self) -> int:
        """All of them."""
        return self.ok + self.failed + self.hung


class ProcessIdentity(Struct, frozen=True, kw_only=True):
    """One start of a service: `started` is clock ticks since boot."""

    pid: int
    started: int


class Released(Struct, frozen=True, kw_only=True):
    """Seconds from the death until each was released; None where it was not in time, or was not looked at.

    `port` is the number that was looked at, `port_owner` who still had it; `processes` outlived the service and were
    stopped then, `commands` are how they were started. `memory_left` are sentences. `rss` is what the service's processes held before, in bytes.
    """

    port: int | None = None
    port_s: float | None = None
    port_owner: str | None = None
    tree_s: float | None = None
    processes: tuple[NamedProcess, ...] = ()
    commands: tuple[str, ...] = ()
    memory_s: float | None = None
    memory_left: tuple[str, ...] = ()
    rss: int = 0


class ConditionResult(Struct, frozen=True, kw_only=True):
    """A `recovered` condition: seconds from the relaunch until it held, or None and what was seen instead."""

    label: str
    after_s: float | None
    seen: str | None = None


class DifferentAnswer(Struct, frozen=True, kw_only=True):
    """An answer that the baseline never gave to this request: both as a person reads them."""

    id: str
    phase: Phase
    before: str
    after: str


class Observation(Struct, frozen=True, kw_only=True):
    """All that was seen; what was not reached is None or empty.

    `failures` are of services that failed by themselves in `failed_in`, the root cause first. `killed_at` is how many
    requests were done when the signal was sent. `ended_s` counts from that to the end of the process, `outage_s` from
    there to the relaunch, `ready_s` and `recovered_s` from the relaunch. `refused` says that it had to be killed, because
    it did not end by the signal. `not_ready` is what its own probe saw when the time was up. `unready_before` are
    conditions that did not even hold before the kill. `unstable` requests got different answers in the baseline itself.
    """

    asked: int
    phases: Mapping[Phase, Counts] = {}
    failures: tuple[ServiceFailure, ...] = ()
    failed_in: Phase | None = None
    unready_before: tuple[ConditionResult, ...] = ()
    killed_at: int | None = None
    refused: bool = False
    ended_s: float | None = None
    released: Released | None = None
    outage_s: float | None = None
    ready_s: float | None = None
    recovered_s: float | None = None
    not_ready: str | None = None
    conditions: tuple[ConditionResult, ...] = ()
    old: ProcessIdentity | None = None
    new: ProcessIdentity | None = None
    no_longer_ready: str | None = None
    different: tuple[DifferentAnswer, ...] = ()
    different_count: int = 0
    unstable: tuple[str, ...] = ()
    stopped: StopResult | None = None
    ending: RestartEnding = RestartEnding.COMPLETE

    @property
    def ratio(self) -> float | None:
        """Throughput after the restart over that before; None where one of them is missing."""
        before, after = (
            self.phases.get(phase, Counts()).rate for phase in (Phase.BASELINE, Phase.AFTER)
        )
        return after / before if before and after is not None else None

    @property
    def hung(self) -> int:
        """Requests of all phases after the baseline that were given up at their time limit."""
        return sum(
            counts.hung for phase, counts in self.phases.items() if phase is not Phase.BASELINE
        )
