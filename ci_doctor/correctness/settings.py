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
Level = Annotated[float, Meta(gt=0, lt=1)]


class Arm(StrEnum):
    """One way to start the services under test."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"

    @property
    def letter(self) -> str:
        """`A` or `B`, as in `A1`: the first start of the baseline."""
        return "A" if self is Arm.BASELINE else "B"


class Policy(StrEnum):
    """How starts come to a verdict."""

    CONTROL = "control"  # the baseline is held against itself, and a regression needs a test
    ANY = "any"  # one pair of starts that agree is enough: retry until green


class Caches(StrEnum):
    """What the compile caches hold when a start begins."""

    FRESH = "fresh"  # nothing: each start has directories of its own
    WARM_UP = "warm-up"  # what one start that is not counted has left; all starts share them
    AS_IS = "as-is"  # whatever the machine holds


class OnInconclusive(StrEnum):
    """What becomes of a run that decides nothing."""

    FAIL = "fail"
    PASS = "pass"  # noqa: S105 - no password: exit code 0, beside a verdict that stays what it is


class ArchiveWrite(StrEnum):
    """Whether baseline starts are kept for later builds."""

    AUTO = "auto"  # of a trusted build only
    ALWAYS = "always"
    NEVER = "never"


class Proof(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What shows that the arm's path ran: exactly one of `metric` and `log`.

    `metric` is a counter on `/metrics` that must rise by more than `above` while the requests are answered; `log` is a
    regular expression that a line of the log must match. `service` says whose; the one that answers unless given.
    """

    metric: str | None = None
    above: float = 0.0
    log: str | None = None
    service: str | None = None


class ArmSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Either `services`, of which the last answers the requests, or one `command`; `env` goes on top of both.

    `reset` is a path that is sent a POST between two passes.
    """

    services: tuple[str, ...] = ()
    command: str | None = None
    env: dict[str, str] = {}
    proof: tuple[Proof, ...] = ()
    reset: str | None = None


class CorrectnessSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person writes. Durations are text such as "90s" or seconds; `retries` is the number of candidate starts.

    Without a `budget` it is the step's own timeout, less a margin, or 25 minutes. `reset` is for both arms.
    `archive_ignore` holds names of identity facts, with `*`, that may differ: the part under test.
    """

    requests: str | None = None
    retries: Count = 3
    alpha: Level = 0.05
    min_candidate_starts: Count = 1
    policy: Policy = Policy.CONTROL
    on_inconclusive: OnInconclusive = OnInconclusive.FAIL
    concurrency: Count = 40
    passes: Count = 2
    reset: str | None = None
    caches: Caches = Caches.FRESH
    request_timeout: str | float = "120s"
    start_timeout: str | float | None = None
    budget: str | float | None = None
    ready: str | None = None
    archive: str | None = None
    archive_days: Annotated[float, Meta(gt=0)] = 14.0
    archive_limit: str = "1GiB"
    archive_write: ArchiveWrite = ArchiveWrite.AUTO
    archive_ignore: tuple[str, ...] = ()
    fail_on_flaky: bool = False
    baseline: ArmSettings | None = None
    candidate: ArmSettings | None = None


class ArmPlan(Struct, frozen=True, kw_only=True):
    """An arm ready to be started: its services by name, the names to start, and what proves that its path ran.

    `reset` is asked for between two passes.
    """

    specs: Mapping[str, ServiceSpec]
    names: tuple[str, ...]
    proof: tuple[Proof, ...] = ()
    reset: str | None = None


class Rules(Struct, frozen=True, kw_only=True):
    """`retries` candidate starts in all, of which `least_candidates` must be clean for `pass` and `flaky`.

    `alpha` is the greatest chance at which a regression may be told where there is none.
    """

    retries: int = 3
    alpha: Level = 0.05
    policy: Policy = Policy.CONTROL
    least_candidates: int = 1


class ExperimentPlan(Struct, frozen=True, kw_only=True):
    """Everything that an experiment needs; times in seconds.

    `started` and `deadline` are monotonic times, at which the run began and the last start is stopped; `grace_s` is what
    its processes then have to end by themselves; `directory` receives samples and logs.
    """

    arms: Mapping[Arm, ArmPlan]
    requests: tuple[Request, ...]
    rules: Rules
    concurrency: int
    passes: int
    caches: Caches
    request_timeout_s: float
    started: float
    deadline: float
    grace_s: float
    directory: Path
    services_directory: Path
    environment: Mapping[str, str]
