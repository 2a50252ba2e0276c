# SPDX-License-Identifier: Apache-2.0
"""What the `[correctness]` section says, which answers are the same, and the plan of a run. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from ci_doctor.buildkite.steps import StepTemplate
from ci_doctor.errors import UsageError
from ci_doctor.load.answer_items import ulp_distance
from ci_doctor.load.requests import Request
from ci_doctor.services.spec import ServiceSpec

_LIMIT = re.compile(r"(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?) *(nat|ulp)", re.IGNORECASE)


Rewrite = Callable[[str, bytes], bytes]


class CopiedCache(Struct, frozen=True, kw_only=True):
    """A restored cache: its tree, and below which variable's directory a start looks for it.

    rewrite: from the new root to what changes a file's content for it (path below the root and
    content); it gives None if no file of this cache changes.
    """

    variable: str
    subdirectory: str
    tree: Path
    rewrite: Callable[[str], Rewrite | None]


class AnswerLevel(StrEnum):
    """What of an answer is compared; each level holds those before it."""

    # Text, reasoning, tool calls, finish reasons, labels, ranks.
    WORDS = "words"
    # ... and token ids.
    TOKENS = "tokens"
    # ... and log-probabilities, vectors, scores.
    NUMBERS = "numbers"


class LimitUnit(StrEnum):
    """In what the distance of two numbers is measured."""

    # The absolute difference; of log-probabilities that is nat.
    NAT = "nat"
    # Units in the last place of float32.
    ULP = "ulp"


class NumberLimit(Struct, frozen=True, kw_only=True):
    """The largest distance at which two numbers count as the same."""

    value: float
    unit: LimitUnit

    def __str__(self) -> str:
        # Every digit: this is how run.json names the limit of a run.
        return f"{self.value!r} {self.unit}".replace(".0 ", " ")

    def allows(self, left: Sequence[float], right: Sequence[float]) -> bool:
        """Whether two answers have as many numbers, each within the limit of its counterpart."""
        if len(left) != len(right):
            return False
        distance = _DISTANCES[self.unit]
        return all(
            one == other or distance(one, other) <= self.value
            for one, other in zip(left, right, strict=True)
        )


def _nat(one: float, other: float) -> float:
    return abs(one - other)


_DISTANCES: dict[LimitUnit, Callable[[float, float], float]] = {
    LimitUnit.NAT: _nat,
    LimitUnit.ULP: ulp_distance,
}


class Comparison(Struct, frozen=True, kw_only=True):
    """The gate's comparison: its level, and how far numbers may lie apart (None: not at all)."""

    level: AnswerLevel = AnswerLevel.NUMBERS
    limit: NumberLimit | None = None

    @property
    def is_exact(self) -> bool:
        """Whether everything is compared, byte for byte."""
        return self.level is AnswerLevel.NUMBERS and self.limit is None

    @property
    def manner(self) -> str:
        """How two answers are the same, in words."""
        if self.limit is not None:
            return f"in words and tokens, and within {self.limit} in numbers"
        return _MANNERS[self.level]


_MANNERS = {
    AnswerLevel.WORDS: "in words",
    AnswerLevel.TOKENS: "in words and tokens",
    AnswerLevel.NUMBERS: "byte for byte",
}


def read_comparison(level: AnswerLevel, limit: str | None) -> Comparison:
    """The comparison of `compare` and `limit` as a person writes them.

    Raises UsageError for a limit of another form, and for one that `level` has no numbers for.
    """
    if limit is None:
        return Comparison(level=level)
    match = _LIMIT.fullmatch(limit.strip())
    if match is None:
        raise UsageError(
            f"limit: `{limit}` is no limit", hint='write limit = "0.01 nat" or limit = "4 ulp"'
        )
    if level is not AnswerLevel.NUMBERS:
        raise UsageError(
            f"limit: numbers are not compared with compare = {level}",
            hint="leave limit out, or write compare = numbers",
        )
    unit = LimitUnit(match[2].lower())
    return Comparison(level=level, limit=NumberLimit(value=float(match[1]), unit=unit))


# Where further starts are made (`fan_out`), if not on this machine.
BUILDKITE = "buildkite"
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

    # The baseline is compared with itself, and a regression needs an exact test.
    CONTROL = "control"
    # One agreeing pair of starts is enough: the usual "retry until green".
    ANY = "any"


class Caches(StrEnum):
    """What the compile caches hold when a start begins."""

    # Nothing: each start has directories of its own.
    FRESH = "fresh"
    # What one start left that does not count; all starts share them.
    WARM_UP = "warm-up"
    # A copy of what `ci-doctor cache restore` has restored, for each start.
    RESTORED = "restored"
    # Whatever the machine holds.
    AS_IS = "as-is"


class OnInconclusive(StrEnum):
    """The exit code of a run that decides nothing; its verdict stays `inconclusive`."""

    FAIL = "fail"
    PASS = "pass"  # noqa: S105 - no password: exit code 0


class ArchiveWrite(StrEnum):
    """Whether baseline starts are kept for later builds."""

    # Only those of a trusted build.
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class EvidencePolicy(StrEnum):
    """What evidence that shows too little to judge by does to the verdict."""

    # The run is void.
    STRICT = "strict"
    # The verdict stands, with a warning.
    REPORT = "report"


class Proof(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What proves that the arm's path ran: exactly one of `metric` and `log`.

    `metric` is a counter on `/metrics` that must rise by more than `above` during the requests, and
    not before them. `labels` choose among its samples. `log` is a regular expression that a line of
    the log must match: one of the requests, or of the start as well if `at_start` is set. `service` is the service meant;
    by default the one that answers.
    """

    metric: str | None = None
    labels: dict[str, str] = {}
    above: float = 0.0
    log: str | None = None
    at_start: bool = False
    service: str | None = None


class ArmSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Either `services`, of which the last answers the requests, or one `command`.

    `env` goes on top of both. `reset` is a path that gets a POST between two passes.
    """

    services: tuple[str, ...] = ()
    command: str | None = None
    env: dict[str, str] = {}
    proof: tuple[Proof, ...] = ()
    reset: str | None = None


class CorrectnessSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section as a person writes it. Durations are text such as "90s", or seconds.

    `retries` is the number of candidate starts at the first look, `max_starts` the most starts of
    both arms. Without a `seed` the order of the arms is drawn anew for each run. Without a `budget`
    it is the step's own timeout, less a margin, or 25 minutes. `reset` is for both arms. `shared` are
    patterns of files that one arm may read though the other wrote them. `devices` are those on which
    starts run side by side: "0", "0+1" for two devices of one start, or "auto". `limit` is
    how far numbers may lie apart, such as "0.01 nat" or "4 ulp". `archive_ignore` holds names of
    identity facts, with `*`, that may differ: the part under test. So many independent
    builds as `archive_builds` must be archived before they stand in for a baseline start. `control`: a
    request with a changed prompt must change the answer. `localise`: after a difference, at most
    `localise_starts` more starts find the smallest condition under which it is still there.
    """

    requests: str | None = None
    retries: Count = 3
    max_starts: Count = 16
    alpha: Level = 0.025
    min_candidate_starts: Count = 1
    min_baseline_starts: Count = 1
    seed: Annotated[int, Meta(ge=0)] | None = None
    policy: Policy = Policy.CONTROL
    on_inconclusive: OnInconclusive = OnInconclusive.FAIL
    concurrency: Count = 40
    passes: Count = 2
    reset: str | None = None
    caches: Caches = Caches.FRESH
    shared: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    fan_out: str | None = None
    step: StepTemplate | None = None
    compare: AnswerLevel = AnswerLevel.NUMBERS
    limit: str | None = None
    control: bool = True
    localise: bool = True
    localise_starts: Annotated[int, Meta(ge=2)] = 16
    evidence: EvidencePolicy = EvidencePolicy.STRICT
    request_timeout: str | float = "120s"
    start_timeout: str | float | None = None
    budget: str | float | None = None
    ready: str | None = None
    archive: str | None = None
    archive_days: Annotated[float, Meta(gt=0)] = 14.0
    archive_limit: str = "1GiB"
    archive_write: ArchiveWrite = ArchiveWrite.AUTO
    archive_builds: Count = 1
    archive_key: str | None = None
    archive_signers: str | None = None
    archive_ignore: tuple[str, ...] = ()
    fail_on_flaky: bool = False
    baseline: ArmSettings | None = None
    candidate: ArmSettings | None = None

    def arm(self, arm: Arm) -> ArmSettings:
        """The settings of one arm; empty ones if it has none."""
        chosen = self.baseline if arm is Arm.BASELINE else self.candidate
        return chosen or ArmSettings()


class ArmPlan(Struct, frozen=True, kw_only=True):
    """An arm that can be started: its services by name, and the names of those to start.

    `proof` proves that its path ran; `reset` is the path that gets a POST between two passes.
    """

    specs: Mapping[str, ServiceSpec]
    names: tuple[str, ...]
    proof: tuple[Proof, ...] = ()
    reset: str | None = None


class StartOrder(StrEnum):
    """What is known of the order of the starts that are judged."""

    # We drew it.
    DRAWN = "drawn"
    # Others chose it, and it is recorded: the starts are in order of time.
    RECORDED = "recorded"
    # Nothing says in which order the starts were made.
    UNKNOWN = "unknown"
    # A person asserts that time plays no part: each order is as likely as any other.
    EXCHANGEABLE = "exchangeable"


class Rules(Struct, frozen=True, kw_only=True):
    """The rules of a verdict.

    `retries` is the number of candidate starts at the first look. `least_candidates` and
    `least_baselines` starts must have answered before `pass`. `max_starts` starts of both arms are
    the end. `alpha` bounds the probability of a regression declared without one, over all looks.
    `seed` is that of the order of the arms, and `order` says what is known of that order.
    `earlier_max_starts` are the limits under which the run was begun, if it was resumed under
    another one.
    `evidence` says whether evidence that shows too little makes the run void. `archive_builds`
    independent builds in the archive stand in for a baseline start of today.
    """

    retries: int = 3
    alpha: Level = 0.025
    policy: Policy = Policy.CONTROL
    least_candidates: int = 1
    least_baselines: int = 1
    max_starts: int = 16
    seed: int = 0
    order: StartOrder = StartOrder.DRAWN
    earlier_max_starts: tuple[int, ...] = ()
    evidence: EvidencePolicy = EvidencePolicy.STRICT
    archive_builds: int = 1

    @property
    def limits(self) -> tuple[int, ...]:
        """Each `max_starts` under which the run was made, the present one last."""
        return (*self.earlier_max_starts, self.max_starts)


class ExperimentPlan(Struct, frozen=True, kw_only=True):
    """Everything that an experiment needs; times in seconds.

    `started` and `deadline` are monotonic times: the run began, and the last start is stopped.
    `may_take_longer`: nobody set that deadline, and it moves if the first start shows that it is too
    early. `grace_s` is what its processes then have to end by themselves. `directory` receives samples and
    logs. `control`: the first working start of each arm gets a request with a changed prompt.
    `restored`: the caches of which each start gets a copy. `shared` are patterns of files that the
    arms may share. `places` are values of CUDA_VISIBLE_DEVICES: each start has one, drawn with the
    order, and `at_once` starts run at once. `given` are the starts to make, by arm and number, whatever they
    answer; without any, the order and the answers decide. `check_requests`: one start of the baseline is made, and
    each of its requests is sent again with one other word, for each region of its prompt.
    `placeholders` are further words to replace in commands, without braces.
    """

    arms: Mapping[Arm, ArmPlan]
    requests: tuple[Request, ...]
    rules: Rules
    concurrency: int
    passes: int
    caches: Caches
    request_timeout_s: float
    comparison: Comparison = Comparison()
    started: float
    deadline: float
    may_take_longer: bool = False
    grace_s: float
    directory: Path
    services_directory: Path
    environment: Mapping[str, str]
    control: bool = True
    restored: tuple[CopiedCache, ...] = ()
    shared: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    at_once: int = 1
    given: tuple[tuple[Arm, int], ...] = ()
    check_requests: bool = False
    placeholders: Mapping[str, str] = {}

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the requests, in the order in which they are sent."""
        return tuple(request.id for request in self.requests)
