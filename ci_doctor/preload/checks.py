# SPDX-License-Identifier: Apache-2.0
"""Pure. The outcome of a check of an installed shim, as findings and as a verdict."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.rule import Rule
from ci_doctor.model.verdict import Verdict


class CheckOutcome(StrEnum):
    """`void`: nothing is proven either way. `not-needed`: the fault cannot happen here."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_NEEDED = "not-needed"
    VOID = "void"


class Check(Struct, frozen=True, kw_only=True):
    """One check: `name` is short and the same from run to run, `sentence` has no full stop.

    `rule` is the finding's, None for an outcome without a finding; `evidence` is text, such as a
    traceback.
    """

    name: str
    outcome: CheckOutcome
    sentence: str
    rule: Rule | None = None
    evidence: str = ""
    remedy: str | None = None


_SEVERITY: Final = {
    CheckOutcome.FAILED: Severity.ERROR,
    CheckOutcome.VOID: Severity.WARNING,
    CheckOutcome.NOT_NEEDED: Severity.NOTE,
}


def findings(checks: Iterable[Check]) -> tuple[Finding, ...]:
    """One finding for each check that did not pass."""
    made = []
    for check in checks:
        severity = _SEVERITY.get(check.outcome)
        if check.rule is None or severity is None:
            continue
        evidence = (Evidence(excerpt=check.evidence),) if check.evidence else ()
        finding = check.rule.finding(
            check.sentence, evidence=evidence, remedy=check.remedy, severity=severity
        )
        made.append(finding)
    return tuple(made)


def verdict(checks: Iterable[Check]) -> Verdict:
    """`failed` if a check failed, else `void` if one is void or there is none, else `pass`."""
    outcomes = {check.outcome for check in checks}
    if CheckOutcome.FAILED in outcomes:
        return Verdict.FAILED
    if CheckOutcome.VOID in outcomes or not outcomes:
        return Verdict.VOID
    return Verdict.PASS
