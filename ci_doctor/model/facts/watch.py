# SPDX-License-Identifier: Apache-2.0
"""Pure. What `ci-doctor run --watch` saw of a script; the same in a report's facts."""

from msgspec import Struct

from ci_doctor.model.service import LeftBehind, ServiceFailure


class WatchedCommand(Struct, frozen=True, kw_only=True):
    """A command of the script's tree.

    start_s: from the script's start to its own, the first of `count` times. seconds: how long it ran
    in all. exit_code and signal: of the last time; None if nobody knows, or if it runs on. log: the
    file that its output went to. ports: those that it listened on.
    """

    command: str
    pid: int
    start_s: float
    seconds: float
    count: int = 1
    exit_code: int | None = None
    signal: str | None = None
    runs_on: bool = False
    log: str | None = None
    ports: tuple[int, ...] = ()


class WatchedServer(Struct, frozen=True, kw_only=True):
    """A port that was served from `start_s` to `end_s`; None if it still was at the end.

    command: None if its process is none of the script's. asked_s: when a connection to it was
    refused first, `refused` how many were before it was up.
    """

    port: int
    command: str | None
    start_s: float
    end_s: float | None = None
    asked_s: float | None = None
    refused: int = 0


class WatchedDeath(Struct, frozen=True, kw_only=True):
    """A server that ended while the script waited for it: how, and `waits`, a sentence on what waits.

    port: the one that was asked for, None if it was a line in its log. is_late: no wait was noticed;
    it had ended before the script failed, and `waits` is on that failure.
    """

    failure: ServiceFailure
    waits: str
    said_s: float
    port: int | None = None
    is_late: bool = False


class WatchedStall(Struct, frozen=True, kw_only=True):
    """A time in which nothing was done, and what each process waited for, in lines.

    why: `stall`, or `deadline` if only the time of the step was short.
    """

    start_s: float
    seconds: float
    why: str
    processes: tuple[str, ...]


class WatchFacts(Struct, frozen=True, kw_only=True):
    """What was seen of a script.

    unseen: how many pids were given out and gone before a look could tell what they were, in this
    pid namespace: processes and threads, others' too. cpu_s: what the watch took itself. is_ended:
    it ended the script. problem: why it saw no more.
    """

    commands: tuple[WatchedCommand, ...] = ()
    servers: tuple[WatchedServer, ...] = ()
    deaths: tuple[WatchedDeath, ...] = ()
    stalls: tuple[WatchedStall, ...] = ()
    left: LeftBehind = LeftBehind()
    unseen: int = 0
    cpu_s: float = 0.0
    is_ended: bool = False
    problem: str | None = None

    @property
    def unanswered(self) -> tuple[WatchedDeath, ...]:
        """The deaths after which nobody served that port again."""
        return tuple(
            each
            for each in self.deaths
            if not any(it.port == each.port and it.start_s > each.said_s for it in self.servers)
        )
