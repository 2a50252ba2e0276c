# SPDX-License-Identifier: Apache-2.0
"""Collected samples as test cases of a report. Pure."""

from ci_doctor.correctness.collected.reread import Collected
from ci_doctor.correctness.verdict.compare import explain
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.starts import DifferenceKind
from ci_doctor.model.outcome import Case, CaseOutcome
from ci_doctor.model.verdict import Verdict

MOST_CASES = 5000


def cases(collected: Collected, decision: Decision) -> tuple[Case, ...]:
    """One case a request, at most MOST_CASES: those that differ first."""
    errors: dict[str, str] = {}
    for of_start in collected.errors.values():
        errors.update(of_start)
    kinds = decision.kinds
    # The sort is stable: within both halves the requests keep the order of the files.
    ordered = sorted(
        collected.survey.requests, key=lambda name: kinds.get(name) is DifferenceKind.EQUAL
    )
    shown = []
    for request in ordered[:MOST_CASES]:
        case = _case(request, decision, errors.get(request))
        shown.append(case)
    return tuple(shown)


def _case(request: str, decision: Decision, reason: str | None) -> Case:
    kind = decision.kinds.get(request, DifferenceKind.UNANSWERED)
    message = explain(kind)
    if decision.verdict in {Verdict.VOID, Verdict.INFRA}:
        # Answers that prove nothing must not look like passed tests to a reader that only counts.
        outcome = CaseOutcome.ERROR
        message = decision.reason
    elif kind in {DifferenceKind.EQUAL, DifferenceKind.FLAKY}:
        outcome = CaseOutcome.PASSED
    elif decision.verdict is Verdict.REGRESSION:
        outcome = CaseOutcome.FAILED
    else:
        outcome = CaseOutcome.ERROR
    return Case(group="requests", name=request, outcome=outcome, message=message, detail=reason)
