# SPDX-License-Identifier: Apache-2.0
"""Whether the evidence can mean anything at all: what is missing, what is void, an arm that never works. Pure."""

import math

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.decision import VerdictEvidence
from ci_doctor.model.verdict import Verdict


def missing(evidence: VerdictEvidence, tried: set[Arm]) -> tuple[Verdict, str] | None:
    """Evidence that could not be gathered; `tried` are the arms that were started at all."""
    if not evidence.total or Arm.BASELINE not in tried:
        return Verdict.VOID, "nothing was answered, so there is nothing to compare"
    if all(start.failed for start in evidence.baseline):
        return Verdict.INFRA, "the baseline itself failed in every start"
    if evidence.candidate:
        return None
    if Arm.CANDIDATE in tried:
        return Verdict.INFRA, "the candidate could not be started, for a reason outside the change"
    if any(start.answered for start in evidence.baseline) and not evidence.complete:
        return Verdict.INCONCLUSIVE, "the budget was spent before the candidate had answered"
    return Verdict.VOID, "the baseline answered nothing, so the candidate was never started"


def void(evidence: VerdictEvidence) -> tuple[Verdict, str] | None:
    """Evidence that proves nothing, whatever it looks like."""
    for start in evidence.baseline:
        # A candidate that alone falls silent has changed; only a silent baseline leaves nothing to compare with.
        if start.answered and start.empty >= start.answered:
            return (
                Verdict.VOID,
                f"every answer of {start.name} is empty: nothing was said, so nothing was compared",
            )
    for start in evidence.starts:
        if start.proof_missing and not start.failed:
            return Verdict.VOID, f"{start.arm} {start.name}: {start.proof_missing[0]}"
    if not any(start.answered for start in evidence.baseline):
        return Verdict.VOID, f"the baseline answered 0 of {evidence.total} requests"
    return _not_asked_the_same(evidence)


def _not_asked_the_same(evidence: VerdictEvidence) -> tuple[Verdict, str] | None:
    """Servers that count different prompt tokens were not asked the same, and their answers cannot be compared."""
    if not any(start.prompts for start in evidence.starts):
        return None
    for request in evidence.requests:
        told: dict[str, tuple[str, str]] = {}
        for start in evidence.starts:
            for fact, value in start.prompts.get(request, {}).items():
                name, first = told.setdefault(fact, (start.name, value))
                if value != first:
                    return Verdict.VOID, (
                        f"the servers were not asked the same: {fact} of request {request} is {first} in {name} "
                        f"and {value} in {start.name}"
                    )
    return None


def failing_candidate(evidence: VerdictEvidence, alpha: float) -> tuple[Verdict, str] | None:
    """A candidate that dies, or answers nothing, in every start."""
    if any(start.answered and not start.failed for start in evidence.candidate):
        return None
    starts = len(evidence.candidate)
    what = (
        "fails"
        if all(start.failed for start in evidence.candidate)
        else f"answers 0 of {evidence.total} requests"
    )
    failed = sum(start.failed for start in evidence.baseline)
    if failed:
        return Verdict.INFRA, (
            f"the candidate {what} in {starts} of {starts} starts, and the baseline fails too, "
            f"in {failed} of {len(evidence.baseline)}"
        )
    if not evidence.enough:
        return (
            Verdict.INCONCLUSIVE,
            f"the candidate {what} in the only start that counts; no other could be made",
        )
    baseline = len(evidence.baseline)
    told = f"the candidate {what} in {starts} of {starts} starts, and the baseline answered in {baseline} of {baseline}"
    if not is_no_chance(baseline, starts, alpha):
        return (
            Verdict.INCONCLUSIVE,
            f"{told}: too few to tell it from starts that fail at random in both arms",
        )
    return Verdict.REGRESSION, told


def is_no_chance(working: int, failing: int, alpha: float) -> bool:
    """Whether starts that fail at random would hardly put all failures on one side.

    Of all ways to choose as many of these starts only one does (Fisher's exact test at its extreme).
    """
    return math.comb(working + failing, failing) * alpha >= 1
