# SPDX-License-Identifier: Apache-2.0
"""What a check of an installed shim says. Pure."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.verdict import Verdict


class CheckOutcome(StrEnum):
    """`void`: nothing is proven either way. `not-needed`: what the shim guards against cannot happen here."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_NEEDED = "not-needed"
    VOID = "void"


class Check(Struct, frozen=True, kw_only=True):
    """One thing that was checked: `name` is short and the same from run to run, `sentence` has no full stop.

    `rule` is the finding's, for an outcome that is worth one; `evidence` is text, such as a traceback.
    """

    name: str
    outcome: CheckOutcome
    sentence: str
    rule: str = ""
    evidence: str = ""
    remedy: str | None = None


_SEVERITY = {
    CheckOutcome.FAILED: Severity.ERROR,
    CheckOutcome.VOID: Severity.WARNING,
    CheckOutcome.NOT_NEEDED: Severity.NOTE,
}


def findings(checks: Iterable[Check]) -> tuple[Finding, ...]:
    """One finding for each check that did not pass."""
    return tuple(
        Finding(
            rule=check.rule,
            severity=_SEVERITY[check.outcome],
            summary=check.sentence,
            evidence=(Evidence(excerpt=check.evidence),) if check.evidence else (),
            remedy=check.remedy,
        )
        for check in checks
        if check.outcome in _SEVERITY
    )


def verdict(checks: Iterable[Check]) -> Verdict:
    """`regression` where a check failed, else `void` where one is void or there is none, else `pass`."""
    outcomes = {check.outcome for check in checks}
    if CheckOutcome.FAILED in outcomes:
        return Verdict.REGRESSION
    return Verdict.VOID if CheckOutcome.VOID in outcomes or not outcomes else Verdict.PASS
