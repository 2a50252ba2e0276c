# SPDX-License-Identifier: Apache-2.0
"""Whether the evidence can mean anything: what is missing, what is void, a broken arm. Pure."""

from collections.abc import Sequence

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import (
    ArmStart,
    failures,
    have_answers,
    only_device,
    working,
)
from ci_doctor.correctness.verdict.decision import VerdictEvidence
from ci_doctor.correctness.verdict.evidence_gate import void_by_looks
from ci_doctor.model.verdict import Verdict


def missing(evidence: VerdictEvidence, tried: set[Arm]) -> tuple[Verdict, str] | None:
    """Evidence that could not be gathered. `tried` are the arms that were started at all.

    `infra` is retried, so it takes a proof for every start: a baseline may be the change's own code,
    and a candidate's own log proves nothing that the baseline does not show too.
    """
    if not evidence.total or Arm.BASELINE not in tried:
        return Verdict.VOID, "nothing was answered, so there is nothing to compare"
    if not evidence.baseline:
        return Verdict.INFRA, "the baseline could not be started, for a reason outside the change"
    if failures(evidence.baseline) == len(evidence.baseline):
        device = only_device(evidence.baseline, evidence.starts)
        if device is not None:
            return (
                Verdict.INCONCLUSIVE,
                f"the baseline failed in every start, {_nothing_on(device)}",
            )
        return Verdict.FAILED, "the baseline failed in every start"
    if evidence.candidate:
        return None
    return _without_candidate(evidence, tried)


def _without_candidate(evidence: VerdictEvidence, tried: set[Arm]) -> tuple[Verdict, str]:
    """What it means that no candidate start counts."""
    if evidence.claimed:
        return Verdict.FAILED, (
            "the candidate failed in every start, and the baseline in none; only the candidate's own "
            "log names a reason outside the change"
        )
    if Arm.CANDIDATE in tried:
        return Verdict.INFRA, "the candidate could not be started, for a reason outside the change"
    if have_answers(evidence.baseline) and not evidence.complete:
        return Verdict.INCONCLUSIVE, "the budget was spent before the candidate had answered"
    return Verdict.VOID, "the baseline answered nothing, so the candidate was never started"


def void(evidence: VerdictEvidence) -> tuple[Verdict, str] | None:
    """Evidence that proves nothing, whatever the answers are."""
    for start in evidence.baseline:
        # A candidate that alone falls silent has changed. Only a silent baseline leaves nothing
        # to compare with.
        if start.answered and start.empty >= start.answered:
            return (
                Verdict.VOID,
                f"every answer of {start.name} is empty: there was no text to compare",
            )
    for start in evidence.starts:
        # A start that failed proves nothing anyway, and has a finding of its own.
        if start.proof_missing and not start.failed:
            return Verdict.VOID, f"{start.arm} {start.name}: {start.proof_missing[0]}"
    if not have_answers(evidence.baseline):
        return Verdict.VOID, f"the baseline answered 0 of {evidence.total} requests"
    return _different_prompts(evidence) or void_by_looks(evidence)


def _different_prompts(evidence: VerdictEvidence) -> tuple[Verdict, str] | None:
    """Servers that report different prompts (token counts): their answers cannot be compared."""
    # Many servers report nothing of a prompt. Then the walk over all requests would be in vain.
    if not any(start.prompts for start in evidence.starts):
        return None
    for request in evidence.requests:
        reason = _prompt_difference(evidence.starts, request)
        if reason is not None:
            return Verdict.VOID, reason
    return None


def _prompt_difference(starts: Sequence[ArmStart], request: str) -> str | None:
    """The first fact of a request's prompt that two starts report differently, in words."""
    first: dict[str, tuple[str, str]] = {}
    for start in starts:
        # A fact that a start does not report differs from nothing.
        for fact, value in start.prompts.get(request, {}).items():
            name, expected = first.setdefault(fact, (start.name, value))
            if value != expected:
                return (
                    f"the servers received different prompts: {fact} of request {request} is "
                    f"{expected} in {name} and {value} in {start.name}"
                )
    return None


def failing_candidate(evidence: VerdictEvidence) -> tuple[Verdict, str] | None:
    """A candidate that dies, or answers nothing, in every start, as the baseline does at times.

    If the baseline always works, the looks decide: a start without an answer is one like any other.
    """
    failed = failures(evidence.baseline)
    if working(evidence.candidate) or not failed:
        return None
    device = only_device(evidence.candidate, evidence.starts)
    if device is not None:
        return (
            Verdict.INCONCLUSIVE,
            f"{candidate_never_works(evidence)}, {_nothing_on(device)}",
        )
    return Verdict.FAILED, (
        f"{candidate_never_works(evidence)}, and the baseline fails too, in {failed} of "
        f"{len(evidence.baseline)}"
    )


def _nothing_on(device: str) -> str:
    return f"and all of them ran on device {device}, on which nothing works"


def candidate_never_works(evidence: VerdictEvidence) -> str:
    """How the candidate fails in all of its starts, in words."""
    candidate = evidence.candidate
    what = f"answers 0 of {evidence.total} requests"
    if failures(candidate) == len(candidate):
        what = "fails"
    if len(candidate) == 1:
        return f"the candidate {what} in the only start that counts"
    return f"the candidate {what} in {len(candidate)} of {len(candidate)} starts"
