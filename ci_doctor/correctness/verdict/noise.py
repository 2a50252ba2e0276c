# SPDX-License-Identifier: Apache-2.0
"""Whether the candidate's own outputs are no more than the baseline's starts show alone. Pure."""

from collections.abc import Sequence
from statistics import mean

from ci_doctor.correctness.verdict.compare import ArmStart
from ci_doctor.correctness.verdict.decision import VerdictEvidence

# Among fewer baseline starts what one shows alone says nothing of noise.
_FEWEST = 3
_TOLERANCE = 2.0


def explained_by_noise(evidence: VerdictEvidence) -> bool:
    """Whether outputs that only the candidate shows look like noise that falls on every start alike.

    They do where the candidate's starts show on average at most twice what a baseline start shows alone, and no such
    output comes back in a second candidate start: noise does not repeat itself. Of the baseline's starts the second
    noisiest is taken, since the first may have been alone in a mode. A request that the candidate left unanswered is
    never excused.
    """
    unanswered = any(None in start.answers.values() for start in evidence.candidate)
    if len(evidence.baseline) < _FEWEST or unanswered:
        return False
    shown = {
        request: {start.answers.get(request) for start in evidence.baseline}
        for request in evidence.requests
    }
    own = [
        {
            (request, answer)
            for request, answer in start.answers.items()
            if answer not in shown[request]
        }
        for start in evidence.candidate
    ]
    if sum(map(len, own)) != len(set().union(*own)):
        return False
    return (
        mean(map(len, own)) <= _TOLERANCE * sorted(_alone(evidence.baseline, evidence.requests))[-2]
    )


def _alone(baseline: Sequence[ArmStart], requests: Sequence[str]) -> list[int]:
    """For each start how many outputs no other baseline start shows; a missing answer is nobody else's."""
    alone = [0] * len(baseline)
    for request in requests:
        answers = [start.answers.get(request) for start in baseline]
        if len(set(answers)) == 1 and answers[0] is not None:
            continue
        for index, answer in enumerate(answers):
            alone[index] += answer is None or answers.count(answer) == 1
    return alone
