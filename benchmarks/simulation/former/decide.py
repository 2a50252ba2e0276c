# SPDX-License-Identifier: Apache-2.0
"""What the starts mean: a function from starts to a verdict. Pure.

Nothing here knows a clock, a file or a process.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm, Policy
from ci_doctor.model.verdict import Verdict
from simulation.former.compare import (
    ArmStart,
    DifferenceKind,
    classify,
    counted,
    failures,
    of_arm,
)
from simulation.former.decision import FEWEST, Decision, VerdictEvidence
from simulation.former.disputed import disputed_requests, disputed_verdict, varying
from simulation.former.noise import explained_by_noise
from simulation.former.risk import any_pair_risk, remaining_risk
from simulation.former.rules import FormerRules as Rules
from simulation.former.validity import failing_candidate, missing, void

Kinds = Mapping[str, DifferenceKind]


def decide(
    starts: Sequence[ArmStart], requests: Sequence[str], rules: Rules, *, complete: bool
) -> Decision:
    """The verdict over `starts`. `complete`: every start of the schedule was made.

    In this order: evidence that is missing, evidence that is void, a candidate that never works,
    then what the answers show.
    """
    usable = counted(starts)
    kinds = classify(requests, usable)
    evidence = VerdictEvidence(
        baseline=of_arm(usable, Arm.BASELINE),
        candidate=of_arm(usable, Arm.CANDIDATE),
        requests=requests,
        complete=complete,
        lost=any(start.outside for start in of_arm(starts, Arm.CANDIDATE)),
        claimed=_claimed(starts),
    )
    # Over all starts, also those that do not count: they were tried.
    tried = {start.arm for start in starts}
    early = missing(evidence, tried) or void(evidence) or failing_candidate(evidence, rules.alpha)
    if early:
        verdict, reason = early
        return Decision(verdict=verdict, reason=reason, kinds=kinds)
    return replace(_compare(evidence, kinds, rules), kinds=kinds)


def _claimed(starts: Sequence[ArmStart]) -> int:
    """Candidate starts that failed for an outside cause which only their own log reports.

    0 if a baseline start's log reports the like. A change that leaks memory or fills the disk
    produces exactly such a log, so the claim alone excuses nothing.
    """
    baseline = of_arm(starts, Arm.BASELINE)
    if any(start.claimed for start in baseline):
        return 0
    candidate = of_arm(starts, Arm.CANDIDATE)
    return sum(start.claimed for start in candidate)


def _compare(evidence: VerdictEvidence, kinds: Kinds, rules: Rules) -> Decision:
    number = Counter(kinds.values())
    # First: what nobody answered cannot be equal.
    unanswered = number[DifferenceKind.UNANSWERED]
    if unanswered:
        return _unanswered(evidence, unanswered)
    if number[DifferenceKind.EQUAL] == evidence.total:
        return _all_equal(evidence, rules)
    if rules.policy is Policy.ANY:
        pair = _agreeing_pair(evidence)
        if pair is not None:
            return _lets_pass(pair, rules)
    disputed = disputed_requests(evidence, kinds)
    if disputed:
        return disputed_verdict(evidence, disputed, number[DifferenceKind.SOMETIMES], rules)
    return _shared(evidence, kinds, rules)


def _lets_pass(pair: tuple[str, str], rules: Rules) -> Decision:
    baseline, candidate = pair
    return Decision(
        verdict=Verdict.PASS,
        reason=f"{baseline} and {candidate} answered alike; other starts did not, "
        "which the policy `any` lets pass",
        risk=any_pair_risk(rules.retries),
    )


def _unanswered(evidence: VerdictEvidence, unanswered: int) -> Decision:
    """Some requests have no baseline answer: void if that is final, else inconclusive."""
    requests = f"{unanswered} of {evidence.total} requests were"
    if evidence.complete or len(evidence.baseline) > FEWEST:
        return Decision(verdict=Verdict.VOID, reason=f"{requests} answered by no baseline start")
    return Decision(
        verdict=Verdict.INCONCLUSIVE, reason=f"{requests} not yet answered by a baseline start"
    )


def _all_equal(evidence: VerdictEvidence, rules: Rules) -> Decision:
    # A start may fail after it has answered everything.
    if failures(evidence.starts):
        return _failed_at_times(evidence, "", rules)
    reason = (
        f"all {evidence.total} answers are the same, byte for byte, "
        f"in {len(evidence.baseline)} baseline and {len(evidence.candidate)} candidate starts"
    )
    return _green(Verdict.PASS, reason, evidence, rules)


def _green(verdict: Verdict, reason: str, evidence: VerdictEvidence, rules: Rules) -> Decision:
    """`pass` or `flaky`, once enough candidate starts were made; with the risk that remains."""
    made = len(evidence.candidate)
    # Its own log alone says so, and a change that leaks memory writes the same.
    if evidence.claimed:
        return Decision(
            verdict=Verdict.INCONCLUSIVE,
            reason=f"{reason}; but {evidence.claimed} candidate starts failed, by their own logs "
            "for a reason outside the change, and no baseline start did",
        )
    if made < rules.least_candidates:
        return Decision(
            verdict=Verdict.INCONCLUSIVE,
            reason=f"{reason}; {rules.least_candidates} candidate starts are required, "
            f"and {made} could be made",
        )
    risk, bound = remaining_risk(evidence, rules.alpha)
    return Decision(verdict=verdict, reason=reason, risk=risk, bound=bound)


def _shared(evidence: VerdictEvidence, kinds: Kinds, rules: Rules) -> Decision:
    """On every request some candidate start gave an answer of the baseline."""
    different = len(varying(evidence))
    number = Counter(kinds.values())
    own = number[DifferenceKind.OWN] + number[DifferenceKind.SOMETIMES]
    if not different and not failures(evidence.baseline):
        return Decision(
            verdict=Verdict.INCONCLUSIVE,
            reason=f"{own} of {evidence.total} answers are only sometimes the baseline's: a rare "
            "flake of the environment, or nondeterminism that the candidate brings",
        )
    varies = f"the baseline differs from itself on {different} of {evidence.total} requests"
    # Noise has many values, so an output of its own is expected of any start.
    if own and not explained_by_noise(evidence):
        return Decision(
            verdict=Verdict.INCONCLUSIVE,
            reason=f"{varies}; the candidate shows outputs of its own on {own}",
        )
    if failures(evidence.starts):
        return _failed_at_times(evidence, f"{varies} and ", rules)
    noise = f" beyond the noise that baseline starts show, on {own}" if own else ""
    reason = f"{varies}; the candidate shows nothing of its own{noise}"
    return _green(Verdict.FLAKY, reason, evidence, rules)


def _failed_at_times(evidence: VerdictEvidence, varies: str, rules: Rules) -> Decision:
    """A service failed in some starts, and not in all of an arm."""
    baseline = _failed(evidence.baseline)
    if failures(evidence.candidate):
        candidate = _failed(evidence.candidate)
        reason = f"{varies}the candidate failed in {candidate}, the baseline in {baseline}"
        return Decision(verdict=Verdict.INCONCLUSIVE, reason=reason)
    who = varies or "the baseline "
    reason = f"{who}failed in {baseline}; the candidate shows nothing of its own"
    return _green(Verdict.FLAKY, reason, evidence, rules)


def _failed(starts: Sequence[ArmStart]) -> str:
    failed = failures(starts)
    return f"{failed} of {len(starts)} starts"


def _agreeing_pair(evidence: VerdictEvidence) -> tuple[str, str] | None:
    """A start of each arm that answered everything, and all alike."""
    for candidate in evidence.candidate:
        if candidate.failed or None in candidate.answers.values():
            continue
        for baseline in evidence.baseline:
            if candidate.answers == baseline.answers:
                return baseline.name, candidate.name
    return None
