# SPDX-License-Identifier: Apache-2.0
"""Whether the answers show that a model read the prompts: what makes agreement meaningless. Pure.

Servers may agree because nothing was computed. Each sign here makes a run void, unless the candidate
alone shows it and answers differently: then the change did that, and the comparison decides.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ci_doctor.correctness.settings import Arm, EvidencePolicy, Rules
from ci_doctor.correctness.verdict.compare import ArmStart, counted, of_arm, outcomes
from ci_doctor.correctness.verdict.control import ControlResult
from ci_doctor.correctness.verdict.decision import Decision, VerdictEvidence
from ci_doctor.model.verdict import Verdict, is_green


class EvidenceFlaw(Struct, frozen=True, kw_only=True):
    """Why the answers of an arm show too little, in one sentence."""

    arm: Arm
    reason: str


def void_by_looks(evidence: VerdictEvidence) -> tuple[Verdict, str] | None:
    """The verdict `void` with its reason, if the evidence of an arm is worth nothing."""
    if not evidence.strict:
        return None
    for flaw in evidence_flaws(evidence.baseline):
        return Verdict.VOID, flaw.reason
    # A candidate that ignores the prompts and answers differently has changed.
    if not evidence.candidate or _is_disputed(evidence):
        return None
    for flaw in evidence_flaws(evidence.candidate):
        return Verdict.VOID, flaw.reason
    return None


def without_flaws(decision: Decision, starts: Sequence[ArmStart], rules: Rules) -> Decision:
    """The decision, or `void` if a green one rests on evidence that is worth nothing.

    `void_by_looks` leaves a candidate that answers differently to the comparison, and that may come
    to `flaky`.
    """
    if not is_green(decision.verdict) or rules.evidence is not EvidencePolicy.STRICT:
        return decision
    for flaw in evidence_flaws(counted(starts)):
        return Decision(verdict=Verdict.VOID, reason=flaw.reason, kinds=decision.kinds)
    restless = [start.name for start in counted(starts) if start.looks.restless]
    if restless:
        reason = (
            f"at temperature 0, {restless[0]} began every answer with other words in each pass, as other "
            "starts did: the answers follow the order of the requests, and not the prompts"
        )
        return Decision(verdict=Verdict.VOID, reason=reason, kinds=decision.kinds)
    return decision


def evidence_flaws(starts: Sequence[ArmStart]) -> Iterator[EvidenceFlaw]:
    """Every flaw of the starts, the baseline's first. Archived starts were judged by their build."""
    for arm in Arm:
        fresh = [start for start in of_arm(starts, arm) if not start.archived]
        reasons = (
            _control_fails(fresh),
            _one_answer(fresh),
            _hollow(fresh),
            _cut_answers(fresh),
            models_within(fresh),
        )
        for reason in reasons:
            if reason is not None:
                yield EvidenceFlaw(arm=arm, reason=reason)


def _is_disputed(evidence: VerdictEvidence) -> bool:
    """Whether on some request no candidate start shares an answer with a baseline start."""
    for request in evidence.requests:
        shared = outcomes(evidence.baseline, request) & outcomes(evidence.candidate, request)
        if not shared - {None}:
            return True
    return False


def _control_fails(starts: Sequence[ArmStart]) -> str | None:
    """No control of the arm changed the answer. One without an answer may be an exception."""
    controls = []
    for start in starts:
        control = start.control
        if control is None:
            continue
        if control.result is ControlResult.CHANGED:
            return None
        is_whole = not start.failed and start.answered == len(start.answers)
        is_unanswered = control.result is ControlResult.UNANSWERED and is_whole
        if control.result in {ControlResult.SAME, ControlResult.PARTLY} or is_unanswered:
            controls.append(f"{start.arm} {start.name}: {control.in_words()}")
    return controls[0] if controls else None


def _one_answer(starts: Sequence[ArmStart]) -> str | None:
    """All prompts got one text. If the control changed it, they may rightly have the same."""
    if _reads_prompts(starts):
        return None
    for start in starts:
        if start.looks.ignores_prompts:
            return (
                f"{start.name} gave one and the same answer to {start.looks.free} different prompts"
            )
    return None


def _hollow(starts: Sequence[ArmStart]) -> str | None:
    for start in starts:
        if start.looks.is_hollow:
            return (
                f"every answer of {start.name} is its prompt again, or an error message: "
                "no model has answered"
            )
    return None


def _reads_prompts(starts: Sequence[ArmStart]) -> bool:
    for start in starts:
        if start.control is not None and start.control.result is ControlResult.CHANGED:
            return True
    return False


def _cut_answers(starts: Sequence[ArmStart]) -> str | None:
    for start in starts:
        looks = start.looks
        if looks.longer and looks.cut == looks.longer:
            return (
                f"the length ended every answer of {start.name} at its first token, "
                "though the requests ask for more"
            )
    return None


def models_within(starts: Sequence[ArmStart]) -> str | None:
    """Why the starts of one arm, of one command, have not served the same model; None if they have."""
    first: dict[str, tuple[str, str]] = {}
    for start in starts:
        for request, model in start.looks.models.items():
            name, expected = first.setdefault(request, (start.name, model))
            if model != expected:
                return (
                    f"the {start.arm} answers {request} as {expected} in {name} "
                    f"and as {model} in {start.name}: these are different models"
                )
    return None
