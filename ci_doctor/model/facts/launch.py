# SPDX-License-Identifier: Apache-2.0
"""The facts of `ci-doctor launch`. Pure."""

from msgspec import Struct

from ci_doctor.model.facts import Facts
from ci_doctor.model.service import ServiceFailure, StopResult


class ServiceRunFacts(Struct, frozen=True, kw_only=True):
    """One service. `started_at` and `ended_at` are monotonic seconds, `peak_rss` is bytes."""

    name: str
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


class ClientFacts(Struct, frozen=True, kw_only=True):
    """The command under the services: `returncode` as subprocess has it, `unable` as errno."""

    words: tuple[str, ...]
    returncode: int | None = None
    duration_s: float = 0.0
    peak_rss: int | None = None
    end_requested: bool = False
    unable: int | None = None


class LaunchFacts(Facts, frozen=True, kw_only=True):
    """The services by name, the client, the first failure, the signal that ended it, the stop."""

    services: dict[str, ServiceRunFacts]
    client: ClientFacts | None = None
    cause: ServiceFailure | None = None
    received: str | None = None
    stopped: StopResult | None = None
