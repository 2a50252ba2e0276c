# SPDX-License-Identifier: Apache-2.0
"""Requests on which the arms never agree, and whether chance explains that. Pure."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from ci_doctor.model.verdict import Verdict
from simulation.former.compare import Answer, ArmStart, DifferenceKind, outcomes
from simulation.former.decision import (
    FEWEST,
    Decision,
    PermutationTest,
    VerdictEvidence,
)
from simulation.former.permutation import (
    Partition,
    disputes,
    partition,
    permutation_test,
)
from simulation.former.risk import false_alarm_risk, level
from simulation.former.rules import FormerRules as Rules


def disputed_requests(
    evidence: VerdictEvidence, kinds: Mapping[str, DifferenceKind]
) -> tuple[str, ...]:
    """The requests on which no candidate start shares its answer with a baseline start."""
    mask = _candidate_mask(evidence)
    disputed = []
    for request, kind in kinds.items():
        is_disputed = kind is DifferenceKind.CHANGED
        # Some outputs of its own are not enough: the other starts may share one.
        if kind is DifferenceKind.OWN:
            is_disputed = disputes(_partition(evidence, request), mask)
        if is_disputed:
            disputed.append(request)
    return tuple(disputed)


def disputed_verdict(
    evidence: VerdictEvidence, disputed: tuple[str, ...], sometimes: int, rules: Rules
) -> Decision:
    """`regression` if chance does not explain the disputed requests; else why nothing is decided.

    On `sometimes` requests the candidate agrees only sometimes with a baseline that is always the
    same. Then more than the environment differs from itself.
    """
    # Also for verdicts that do not rest on it: the report shows the figures.
    test = _test(evidence, disputed, rules)
    different = f"{len(disputed)} of {evidence.total} answers are never the baseline's"
    starts = f"{len(evidence.baseline)} baseline and {len(evidence.candidate)} candidate starts"
    chance = f"chance alone does so in {_share(test.p)} of cases"
    if not evidence.complete or not evidence.enough:
        reason = f"{different} in {starts}, and the starts that would show why were not made"
        return Decision(verdict=Verdict.INCONCLUSIVE, reason=reason, test=test)
    if test.p <= test.level:
        return Decision(
            verdict=Verdict.REGRESSION,
            reason=f"{different} in {starts}: {chance}",
            test=test,
            risk=false_alarm_risk(test),
        )
    if not sometimes and _never_repeats(evidence, disputed):
        return Decision(
            verdict=Verdict.NONDETERMINISTIC,
            reason=_nondeterministic(evidence, len(disputed)),
            test=test,
        )
    reason = f"{different} in {starts}, but {chance}, more than {_share(test.level)}"
    return Decision(verdict=Verdict.INCONCLUSIVE, reason=reason, test=test)


def _never_repeats(evidence: VerdictEvidence, disputed: Sequence[str]) -> bool:
    """Whether on each of these requests no two of enough baseline starts gave the same answer."""
    if len(evidence.baseline) <= FEWEST:
        return False
    return not any(_repeats(evidence.baseline, request) for request in disputed)


def _repeats(baseline: Sequence[ArmStart], request: str) -> bool:
    """Whether two starts gave the same answer."""
    answers = Counter(start.answers.get(request) for start in baseline)
    # Two missing answers are no answer given twice.
    del answers[None]
    return any(number > 1 for number in answers.values())


def _nondeterministic(evidence: VerdictEvidence, never: int) -> str:
    stable = evidence.total - len(varying(evidence))
    return (
        f"the baseline never gives the same answer twice on {never} of {evidence.total} requests, "
        f"so these cannot be compared; the baseline repeats itself on {stable}, "
        "and there the candidate agrees"
    )


def varying(evidence: VerdictEvidence) -> list[str]:
    """The requests on which the baseline differs from itself."""
    baseline = evidence.baseline
    return [each for each in evidence.requests if len(outcomes(baseline, each)) > 1]


def _test(evidence: VerdictEvidence, disputed: tuple[str, ...], rules: Rules) -> PermutationTest:
    starts = len(evidence.starts)
    candidates = len(evidence.candidate)
    count = permutation_test(_weighed(evidence), _candidate_mask(evidence), starts)
    best = 1
    # With arms of equal size each labeling has a mirror image that is as extreme.
    if candidates == len(evidence.baseline):
        best = 2
    smallest = best / math.comb(starts, candidates)
    return PermutationTest(
        disputed=disputed,
        p=count.p,
        smallest_p=smallest,
        labelings=count.labelings,
        alpha=rules.alpha,
        level=level(rules.alpha, smallest, count.patterns),
    )


def _candidate_mask(evidence: VerdictEvidence) -> int:
    """The candidate's starts among `evidence.starts`, a bit each."""
    return (1 << len(evidence.candidate)) - 1 << len(evidence.baseline)


def _partition(evidence: VerdictEvidence, request: str) -> Partition:
    answers = [start.answers.get(request) for start in evidence.starts]
    return partition(answers)


def _weighed(evidence: VerdictEvidence) -> Counter[Partition]:
    """The partitions of all requests, with their weights.

    Words weigh more than all numbers together. Log-probabilities may differ from start to start on
    every request, and with equal weights they would hide different words from the test. A test may
    have any statistic, if no label goes into it.
    """
    weighed = Counter(_partition(evidence, request) for request in evidence.requests)
    if not any(start.words for start in evidence.starts):
        return weighed
    for request in evidence.requests:
        words = [_words(start, request) for start in evidence.starts]
        # One more than all numbers together can weigh.
        weighed[partition(words)] += evidence.total + 1
    return weighed


def _words(start: ArmStart, request: str) -> Answer:
    """The outcome of the words; the whole outcome, if it consists of nothing else."""
    return start.words.get(request, start.answers.get(request))


def _share(value: float) -> str:
    """`5.4%`: one digit more than the level it is compared with."""
    if value < 0.001:
        return f"{value:.2g}"
    return f"{100 * value:.3g}%"
