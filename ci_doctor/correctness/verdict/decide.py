# SPDX-License-Identifier: Apache-2.0
"""What the starts mean: a pure function from starts to a verdict. Nothing here knows a clock, a file or a process."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm, Policy, Rules
from ci_doctor.correctness.verdict.compare import ArmStart, DifferenceKind, classify, counted
from ci_doctor.correctness.verdict.decision import (
    FEWEST,
    Decision,
    PermutationTest,
    VerdictEvidence,
    of_arm,
)
from ci_doctor.correctness.verdict.noise import explained_by_noise
from ci_doctor.correctness.verdict.permutation import (
    Partition,
    disputes,
    partition,
    permutation_test,
)
from ci_doctor.correctness.verdict.risk import any_pair_risk, false_alarm_risk, level, rare_bug_risk
from ci_doctor.correctness.verdict.validity import failing_candidate, missing, void
from ci_doctor.model.verdict import Verdict


def decide(
    starts: Sequence[ArmStart], requests: Sequence[str], rules: Rules, *, complete: bool
) -> Decision:
    """The verdict over `starts`; `complete` says that every start of the schedule was made.

    In order: evidence that is missing, evidence that is void, a candidate that never works, then what the answers say.
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
    told = (
        missing(evidence, {start.arm for start in starts})
        or void(evidence)
        or failing_candidate(evidence, rules.alpha)
    )
    if told:
        return Decision(verdict=told[0], reason=told[1], kinds=kinds)
    return replace(_compare(evidence, kinds, rules), kinds=kinds)


def _claimed(starts: Sequence[ArmStart]) -> int:
    """Candidate starts that failed for a reason outside by their own word, where no baseline start says the like.

    A change that leaks memory or fills the disk says just that.
    """
    if any(start.claimed for start in of_arm(starts, Arm.BASELINE)):
        return 0
    return sum(start.claimed for start in of_arm(starts, Arm.CANDIDATE))


def _compare(
    evidence: VerdictEvidence, kinds: Mapping[str, DifferenceKind], rules: Rules
) -> Decision:
    number = Counter(kinds.values())
    if number[DifferenceKind.UNANSWERED] and (evidence.complete or len(evidence.baseline) > FEWEST):
        return Decision(
            verdict=Verdict.VOID,
            reason=f"{number[DifferenceKind.UNANSWERED]} of {evidence.total} requests were answered by no baseline start",
        )
    if number[DifferenceKind.UNANSWERED]:
        return Decision(
            verdict=Verdict.INCONCLUSIVE,
            reason=f"{number[DifferenceKind.UNANSWERED]} of {evidence.total} requests were not yet answered by a baseline start",
        )
    if number[DifferenceKind.EQUAL] == evidence.total:
        return _all_equal(evidence, rules)
    if rules.policy is Policy.ANY and (pair := _agreeing_pair(evidence)):
        return Decision(
            verdict=Verdict.PASS,
            reason=f"{pair[0]} and {pair[1]} answered alike; other starts did not, which the policy `any` lets pass",
            risk=any_pair_risk(rules.retries),
        )
    if disputed := _disputed(evidence, kinds):
        return _disputed_verdict(evidence, disputed, number[DifferenceKind.SOMETIMES], rules)
    return _shared(evidence, kinds, rules)


def _all_equal(evidence: VerdictEvidence, rules: Rules) -> Decision:
    if any(start.failed for start in evidence.starts):
        return _failed_at_times(evidence, "", rules)
    return _green(
        Verdict.PASS,
        f"all {evidence.total} answers are the same, byte for byte, "
        f"in {len(evidence.baseline)} baseline and {len(evidence.candidate)} candidate starts",
        evidence,
        rules,
    )


def _green(verdict: Verdict, reason: str, evidence: VerdictEvidence, rules: Rules) -> Decision:
    """`pass` or `flaky`, once as many candidate starts were made as were asked for; with what that leaves open."""
    clean = len(evidence.candidate)
    if evidence.claimed:
        return Decision(
            verdict=Verdict.INCONCLUSIVE,
            reason=f"{reason}; but {evidence.claimed} candidate starts failed, by their own logs for a reason outside the "
            "change, and no baseline start did",
        )
    if clean < rules.least_candidates:
        return Decision(
            verdict=Verdict.INCONCLUSIVE,
            reason=f"{reason}; {rules.least_candidates} candidate starts are asked for, and {clean} could be made",
        )
    return Decision(verdict=verdict, reason=reason, risk=rare_bug_risk(clean, rules.alpha))


def _disputed(evidence: VerdictEvidence, kinds: Mapping[str, DifferenceKind]) -> tuple[str, ...]:
    """The requests where no candidate start shares its answer with a baseline start."""
    mask = _candidate_mask(evidence)
    return tuple(
        request
        for request, kind in kinds.items()
        if kind is DifferenceKind.CHANGED
        or (kind is DifferenceKind.OWN and disputes(_partition(evidence, request), mask))
    )


def _candidate_mask(evidence: VerdictEvidence) -> int:
    """The candidate's starts among `evidence.starts`, a bit each."""
    return (1 << len(evidence.candidate)) - 1 << len(evidence.baseline)


def _partition(evidence: VerdictEvidence, request: str) -> Partition:
    return partition([start.answers.get(request) for start in evidence.starts])


def _weighed(evidence: VerdictEvidence) -> Counter[Partition]:
    """The partitions of all requests. Words weigh more than all numbers together.

    Log-probabilities may differ from start to start on every request: by themselves they would hide what the candidate
    says from a test that counts them alike. A test may have any statistic, as long as no label goes into it.
    """
    weighed = Counter(_partition(evidence, request) for request in evidence.requests)
    if any(start.words for start in evidence.starts):
        for request in evidence.requests:
            words = [
                start.words.get(request, start.answers.get(request)) for start in evidence.starts
            ]
            weighed[partition(words)] += evidence.total + 1
    return weighed


def _disputed_verdict(
    evidence: VerdictEvidence, disputed: tuple[str, ...], sometimes: int, rules: Rules
) -> Decision:
    """Regression where chance does not explain it; else why nothing is decided.

    On `sometimes` requests a stable baseline is only sometimes met: then not only the environment differs from itself.
    """
    test = _test(evidence, disputed, rules)
    never = [request for request in disputed if not _repeats(evidence.baseline, request)]
    told = f"{len(disputed)} of {evidence.total} answers are never the baseline's"
    starts = f"{len(evidence.baseline)} baseline and {len(evidence.candidate)} candidate starts"
    if not evidence.complete or not evidence.enough:
        verdict, reason = (
            Verdict.INCONCLUSIVE,
            f"{told} in {starts}, and the starts that would tell why were not made",
        )
    elif test.p <= test.level:
        verdict, reason = (
            Verdict.REGRESSION,
            f"{told} in {starts}: chance alone does so in {_share(test.p)} of cases",
        )
    elif len(never) == len(disputed) and len(evidence.baseline) > FEWEST and not sometimes:
        stable = evidence.total - len(_varying(evidence))
        verdict = Verdict.NONDETERMINISTIC
        reason = (
            f"the baseline never gives the same answer twice on {len(never)} of {evidence.total} requests, so these "
            f"cannot be compared; the baseline repeats itself on {stable}, and there the candidate agrees"
        )
    else:
        verdict = Verdict.INCONCLUSIVE
        reason = f"{told} in {starts}, but chance alone does so in {_share(test.p)} of cases, more than {_share(test.level)}"
    risk = false_alarm_risk(test) if verdict is Verdict.REGRESSION else None
    return Decision(verdict=verdict, reason=reason, test=test, risk=risk)


def _test(evidence: VerdictEvidence, disputed: tuple[str, ...], rules: Rules) -> PermutationTest:
    starts = evidence.starts
    result = permutation_test(_weighed(evidence), _candidate_mask(evidence), len(starts))
    best = 2 if len(evidence.baseline) == len(evidence.candidate) else 1
    smallest = best / math.comb(len(starts), len(evidence.candidate))
    return PermutationTest(
        disputed=disputed,
        p=result.p,
        smallest_p=smallest,
        labelings=result.labelings,
        alpha=rules.alpha,
        level=level(rules.alpha, smallest, result.patterns),
    )


def _share(value: float) -> str:
    """`5.4%`: with a digit more than the level it is held against."""
    return f"{value:.2g}" if value < 0.001 else f"{100 * value:.3g}%"


def _repeats(baseline: Sequence[ArmStart], request: str) -> bool:
    """Whether some answer was given by two starts."""
    answers = [start.answers.get(request) for start in baseline]
    return any(number > 1 for answer, number in Counter(answers).items() if answer is not None)


def _varying(evidence: VerdictEvidence) -> list[str]:
    return [
        request
        for request in evidence.requests
        if len({start.answers.get(request) for start in evidence.baseline}) > 1
    ]


def _shared(
    evidence: VerdictEvidence, kinds: Mapping[str, DifferenceKind], rules: Rules
) -> Decision:
    """On every request some candidate start gave an answer of the baseline."""
    varying = len(_varying(evidence))
    own = sum(kind in {DifferenceKind.OWN, DifferenceKind.SOMETIMES} for kind in kinds.values())
    if not varying and not any(start.failed for start in evidence.baseline):
        return Decision(
            verdict=Verdict.INCONCLUSIVE,
            reason=f"{own} of {evidence.total} answers are only sometimes the baseline's: a rare flake of the "
            "environment, or nondeterminism that the candidate brings",
        )
    varies = f"the baseline differs from itself on {varying} of {evidence.total} requests"
    if own and not explained_by_noise(evidence):
        return Decision(
            verdict=Verdict.INCONCLUSIVE,
            reason=f"{varies}; the candidate shows outputs of its own on {own}",
        )
    if any(start.failed for start in evidence.starts):
        return _failed_at_times(evidence, f"{varies} and ", rules)
    noise = f" beyond the noise that baseline starts show, on {own}" if own else ""
    return _green(
        Verdict.FLAKY, f"{varies}; the candidate shows nothing of its own{noise}", evidence, rules
    )


def _failed_at_times(evidence: VerdictEvidence, varies: str, rules: Rules) -> Decision:
    """A service failed in some starts, and not in all of an arm."""
    failed = {
        arm: f"{sum(start.failed for start in starts)} of {len(starts)} starts"
        for arm, starts in ((Arm.BASELINE, evidence.baseline), (Arm.CANDIDATE, evidence.candidate))
    }
    if any(start.failed for start in evidence.candidate):
        reason = f"{varies}the candidate failed in {failed[Arm.CANDIDATE]}, the baseline in {failed[Arm.BASELINE]}"
        return Decision(verdict=Verdict.INCONCLUSIVE, reason=reason)
    reason = f"{varies or 'the baseline '}failed in {failed[Arm.BASELINE]}; the candidate shows nothing of its own"
    return _green(Verdict.FLAKY, reason, evidence, rules)


def _agreeing_pair(evidence: VerdictEvidence) -> tuple[str, str] | None:
    """A start of each arm that answered everything, and all alike."""
    for candidate in evidence.candidate:
        for baseline in evidence.baseline:
            if (
                not candidate.failed
                and candidate.answers == baseline.answers
                and None not in candidate.answers.values()
            ):
                return baseline.name, candidate.name
    return None
