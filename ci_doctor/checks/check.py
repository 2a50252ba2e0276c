# SPDX-License-Identifier: Apache-2.0
"""Pure. A check: its declared need and cost, the function that looks, and what it has to say."""

from collections.abc import Callable, Generator, Mapping
from enum import Enum, StrEnum
from functools import wraps
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.checks.settings import NONE, Workload
from ci_doctor.model.outcome import Evidence, Finding, NextStep, Rule, Scalar, Severity

if TYPE_CHECKING:  # the context reads files, and this module is pure
    from ci_doctor.checks.context import CheckContext


class CheckStatus(StrEnum):
    """How one check ended, the worst first."""

    ERROR = "error"
    UNKNOWN = "unknown"
    WARNING = "warning"
    OK = "ok"


class Fault(StrEnum):
    """Who has to act: the owner of the machine (exit code 75), or the author of the change (1)."""

    ENVIRONMENT = "environment"
    REPOSITORY = "repository"


class Fix(Struct, frozen=True, kw_only=True):
    """A change that `--fix` makes: only what is safe, and ours to change.

    `words` say what is changed, as an imperative clause ("remove /tmp/ci-doctor-tmp.x, 3 MB"). `apply`
    does it, and raises OSError or CiDoctorError if it cannot.
    """

    words: str
    apply: Callable[[], None]


class Problem(Struct, frozen=True, kw_only=True):
    """A finding of a check, with whose fault it is, and the fix if ci-doctor has one."""

    finding: Finding
    fault: Fault = Fault.ENVIRONMENT
    fix: Fix | None = None

    def with_fix(self, fix: Fix) -> "Problem":
        """The same, with a change that `--fix` can make."""
        return replace(self, fix=fix)


def problem(
    rule: Rule,
    summary: str,
    *,
    evidence: tuple[Evidence, ...] = (),
    remedy: NextStep | None = None,
    severity: Severity | None = None,
    fault: Fault = Fault.ENVIRONMENT,
) -> Problem:
    """A problem by `rule`; the words are those of Rule.finding. Without `remedy`, the rule's own."""
    return Problem(
        finding=rule.finding(
            summary, evidence=evidence, remedy=remedy or rule.remedy, severity=severity
        ),
        fault=fault,
    )


class CheckResult(Struct, frozen=True, kw_only=True):
    """What a check has to say.

    `summary` is one clause with the observed value ("/dev/shm has 64.4 GB free of 68.7 GB").
    `unknown`: why a part of it, or all, cannot be known; None if all is known. `evidence` shows what
    the summary rests on, `figures` the same for programs.
    """

    summary: str
    problems: tuple[Problem, ...] = ()
    unknown: str | None = None
    evidence: tuple[Evidence, ...] = ()
    figures: Mapping[str, Scalar] = {}

    @property
    def status(self) -> CheckStatus:
        """The worst of what the check has to say. A note changes nothing."""
        severities = {each.finding.severity for each in self.problems}
        if Severity.ERROR in severities:
            return CheckStatus.ERROR
        if self.unknown is not None:
            return CheckStatus.UNKNOWN
        if Severity.WARNING in severities:
            return CheckStatus.WARNING
        return CheckStatus.OK


def unknown_result(reason: str) -> CheckResult:
    """The result of a check that cannot know anything, for `reason`."""
    return CheckResult(summary=reason, unknown=reason)


class UndeterminedError(Exception):
    """A check cannot know; the text is the reason, one clause without a full stop."""


class Need(Enum):
    """What must be there for a check to make sense; without it the check is not run.

    The value says what is missing, as a clause.
    """

    NOTHING = ""
    GPU = "this machine has no NVIDIA GPU"
    INTERPRETER = "no Python interpreter was chosen or found"
    GIT_CHECKOUT = "the working directory is in no git checkout"
    SERVICES = "no service is configured"


class Cost(Enum):
    """How long a check may take, in seconds: its deadline. Most take less than 0.1 s.

    A file is read at once. A program is started. A GPU's driver may have to be woken. An import of
    a large package reads thousands of files. A measurement ends by limits of its own; this one is for a
    driver that hangs where no signal reaches.
    """

    FILES = 1.5
    PROGRAM = 1.7
    GPU_DRIVER = 15.0
    IMPORT = 60.0
    MEASUREMENT = 900.0


class DoctorCheck(Struct, frozen=True, kw_only=True):
    """One check.

    `id` is `area/what`, as people type it; `title` says what is looked at. `needed_for`: the
    workloads that cannot be judged without it. `run` may raise UndeterminedError, and OSError for
    what cannot be read; both make the result unknown. `deadline_s` is that of the cost, if None.
    The report shows the summary of an `is_measurement` even if it is ok: its figures were asked for.
    """

    id: str
    title: str
    run: "Callable[[CheckContext], CheckResult]"
    need: Need = Need.NOTHING
    cost: Cost = Cost.FILES
    needed_for: frozenset[Workload] = NONE
    deadline_s: float | None = None
    is_measurement: bool = False

    @property
    def limit_s(self) -> float:
        """Seconds that the check may take."""
        return self.deadline_s if self.deadline_s is not None else self.cost.value

    @property
    def area(self) -> str:
        """The part of the id before the slash."""
        return self.id.partition("/")[0]


class FinishedCheck(Struct, frozen=True, kw_only=True):
    """A check and its result; `duration_s` is None if it missed its deadline."""

    check: DoctorCheck
    result: CheckResult
    duration_s: float | None


# What a check yields, and returns: its summary, or a result without the problems.
Findings = Generator[Problem, None, CheckResult | str]


def result_of(steps: Findings) -> CheckResult:
    """All that a check has to say. Raises UndeterminedError and OSError if it has yielded no problem.

    After a problem, the problem stands and the rest is unknown.
    """
    problems: list[Problem] = []
    while True:
        try:
            problems.append(next(steps))
        except StopIteration as end:
            said: CheckResult | str = end.value
            return replace(
                CheckResult(summary=said) if isinstance(said, str) else said,
                problems=tuple(problems),
            )
        except (UndeterminedError, OSError) as error:
            if not problems:
                raise
            return replace(unknown_result(str(error)), problems=tuple(problems))


def check(
    name: str,
    *,
    title: str,
    need: Need = Need.NOTHING,
    cost: Cost = Cost.FILES,
    needed_for: frozenset[Workload] = NONE,
    is_measurement: bool = False,
) -> "Callable[[Callable[[CheckContext], Findings]], DoctorCheck]":
    """Make a DoctorCheck of a generator that yields its problems (result_of); the names are its fields."""

    def decorate(look: "Callable[[CheckContext], Findings]") -> DoctorCheck:
        @wraps(look)
        def run(context: "CheckContext") -> CheckResult:
            return result_of(look(context))

        return DoctorCheck(
            id=name,
            title=title,
            run=run,
            need=need,
            cost=cost,
            needed_for=needed_for,
            is_measurement=is_measurement,
        )

    return decorate
