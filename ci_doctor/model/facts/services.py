# SPDX-License-Identifier: Apache-2.0
"""Facts about services that several commands report. Pure."""

from msgspec import Struct


class ProcessFacts(Struct, frozen=True, kw_only=True):
    """A process."""

    pid: int
    name: str


class LeftThingFacts(Struct, frozen=True, kw_only=True):
    """A thing that `services` left behind, and how that is known; `size` is bytes."""

    kind: str
    name: str
    services: tuple[str, ...]
    why: str
    size: int | None = None
    remedy: str | None = None
    strict: bool = False


class LeftBehindFacts(Struct, frozen=True, kw_only=True):
    """What was left on the machine.

    `unknown` counts by folder what came up meanwhile and belongs to nobody known, `unseen` names
    processes that could not be looked into.
    """

    things: tuple[LeftThingFacts, ...] = ()
    unknown: dict[str, int] = {}
    unseen: tuple[str, ...] = ()


class StopFacts(Struct, frozen=True, kw_only=True):
    """How the services were stopped.

    `not_released`, `cut_logs` and `problems` are sentences, `left_behind` is None in older reports.
    """

    killed: tuple[ProcessFacts, ...] = ()
    survivors: tuple[ProcessFacts, ...] = ()
    duration_s: float
    not_released: tuple[str, ...] = ()
    cut_logs: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    left_behind: LeftBehindFacts | None = None


class FailureFacts(Struct, frozen=True, kw_only=True):
    """Why a service was of no use.

    `kind` is `died`, `not-ready` or `outside`. `at` is monotonic seconds, `duration_s` counts from
    the service's start. `exit_code` or `signal` tell how the process ended, with `exit_unknown`
    nobody knows. `tail` are the root lines of its log, `tail_root` the index of the root line among
    them, `tail_line` and `tail_end_line` their 1-based place in it. `peak_rss` is bytes. `misuse` is
    the log line that says that the command cannot run as it is written.
    """

    kind: str
    service: str
    message: str
    at: float = 0.0
    pid: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    exit_unknown: bool = False
    descendant: ProcessFacts | None = None
    peak_rss: int | None = None
    oom: str | None = None
    fatal: str | None = None
    consequences: tuple[str, ...] = ()
    stopped: StopFacts | None = None
    log: str | None = None
    tail: tuple[str, ...] = ()
    tail_root: int | None = None
    tail_line: int | None = None
    tail_end_line: int | None = None
    was_ready: bool = False
    misuse: str | None = None
    duration_s: float
