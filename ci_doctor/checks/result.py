# SPDX-License-Identifier: Apache-2.0
"""Pure. What one check has to say: its problems, its evidence, or why it cannot know."""

from collections.abc import Callable, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.model.finding import Evidence, Finding, NextStep, Severity
from ci_doctor.model.rule import Rule
from ci_doctor.model.table import Scalar


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
    finding = rule.finding(
        summary, evidence=evidence, remedy=remedy or rule.remedy, severity=severity
    )
    return Problem(finding=finding, fault=fault)


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
