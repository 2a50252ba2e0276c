# SPDX-License-Identifier: Apache-2.0
"""Whether the candidate's own outputs are no more than baseline starts show on their own. Pure."""

from collections import Counter
from collections.abc import Sequence
from statistics import mean

from simulation.former.compare import Answer, ArmStart, outcomes
from simulation.former.decision import VerdictEvidence

# With fewer baseline starts, the outputs of a single one say nothing about noise.
_FEWEST = 3
_TOLERANCE = 2.0


def explained_by_noise(evidence: VerdictEvidence) -> bool:
    """Whether outputs that only the candidate shows look like noise on every start alike.

    Two conditions. On average a candidate start has at most twice as many outputs of its own as a
    baseline start. And no such output appears in two candidate starts: noise does not repeat
    itself. A request that the candidate left unanswered is never excused.
    """
    if len(evidence.baseline) < _FEWEST:
        return False
    counts = []
    together: set[tuple[str, Answer]] = set()
    for start in evidence.candidate:
        if None in start.answers.values():
            return False
        own = _own_outputs(start, evidence)
        if not together.isdisjoint(own):
            return False
        together.update(own)
        counts.append(len(own))
    # The second noisiest baseline start: the first may have been in a mode of its own.
    usual = sorted(_outputs_of_one(evidence.baseline, evidence.requests))[-2]
    return mean(counts) <= _TOLERANCE * usual


def _own_outputs(start: ArmStart, evidence: VerdictEvidence) -> set[tuple[str, Answer]]:
    """The answers of a candidate start that no baseline start gave, with their requests."""
    own = set()
    for request in evidence.requests:
        answer = start.answers[request]
        if answer not in outcomes(evidence.baseline, request):
            own.add((request, answer))
    return own


def _outputs_of_one(baseline: Sequence[ArmStart], requests: Sequence[str]) -> list[int]:
    """For each start the number of its outputs that no other start shows.

    A missing answer counts as such an output.
    """
    counts = [0] * len(baseline)
    for request in requests:
        answers = [start.answers.get(request) for start in baseline]
        times = Counter(answers)
        for index, answer in enumerate(answers):
            if answer is None or times[answer] == 1:
                counts[index] += 1
    return counts
