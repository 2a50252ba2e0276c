# SPDX-License-Identifier: Apache-2.0
"""What happens to a service, as values. Pure."""

from enum import StrEnum

from msgspec import Struct


class EventKind(StrEnum):
    """What can happen to a service, in the order in which it does."""

    STARTED = "started"
    READY = "ready"
    DIED = "died"
    DESCENDANT_DIED = "descendant-died"
    STOPPING = "stopping"
    KILLED = "killed"
    STOPPED = "stopped"


class ServiceEvent(Struct, frozen=True, kw_only=True):
    """Something happened to `service`.

    `at` is monotonic seconds (system.clock). `duration_s` counts from the service's start (for
    `stopped`, from `stopping`). `start` counts the starts of the service in its group. `killed` and
    `descendant-died` are about one process, under its own `pid` and `name`; `service` is None if
    `killed` ended a process further down. `peak_rss` is bytes, `oom` as in ServiceFailure. `url` is
    the address of a service that is ready.
    """

    kind: EventKind
    service: str | None
    at: float
    start: int | None = None
    pid: int | None = None
    log: str | None = None
    url: str | None = None
    duration_s: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    name: str | None = None
    peak_rss: int | None = None
    oom: str | None = None
