# SPDX-License-Identifier: Apache-2.0
"""The `[correctness]` section, and what it comes to once it is checked."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from ci_doctor.load.requests import Request
from ci_doctor.services.spec import ServiceSpec

Count = Annotated[int, Meta(ge=1)]


class Arm(StrEnum):
    """One way to start the services under test."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"

    @property
    def letter(self) -> str:
        """`A` or `B`, as in `A1`: the first start of the baseline."""
        return "A" if self is Arm.BASELINE else "B"


class MetricProof(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A counter on `/metrics` that must rise by more than `above` while the requests are answered."""

    metric: str
    above: float = 0.0


class ArmSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Either `services`, of which the last answers the requests, or one `command`; `env` goes on top of both."""

    services: tuple[str, ...] = ()
    command: str | None = None
    env: dict[str, str] = {}
    proof: tuple[MetricProof, ...] = ()


class CorrectnessSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person writes. Durations are text such as "90s" or seconds; `retries` is the number of candidate starts."""

    requests: str | None = None
    retries: Count = 3
    concurrency: Count = 40
    passes: Count = 1
    request_timeout: str | float = "120s"
    start_timeout: str | float | None = None
    budget: str | float = "25m"
    ready: str | None = None
    fail_on_flaky: bool = False
    baseline: ArmSettings | None = None
    candidate: ArmSettings | None = None


class ArmPlan(Struct, frozen=True, kw_only=True):
    """An arm ready to be started: its services by name, the names to start, and what proves that its path ran."""

    specs: Mapping[str, ServiceSpec]
    names: tuple[str, ...]
    proof: tuple[MetricProof, ...] = ()


class Plan(Struct, frozen=True, kw_only=True):
    """Everything that an experiment needs; times in seconds.

    `deadline` is the monotonic time at which the last start is stopped, `grace_s` what its processes then have to end
    by themselves; `directory` receives samples and logs.
    """

    arms: Mapping[Arm, ArmPlan]
    requests: tuple[Request, ...]
    retries: int
    concurrency: int
    passes: int
    request_timeout_s: float
    deadline: float
    grace_s: float
    directory: Path
    services_directory: Path
    environment: Mapping[str, str]
