# SPDX-License-Identifier: Apache-2.0
"""Reads the answers of an experiment: which difference is localised, and what is known of it."""

from collections.abc import Sequence
from itertools import product

from ci_doctor.correctness.localise.conditions import (
    LocalisedDifference,
    ReducedCondition,
    ReducedResult,
    ReducedStanding,
)
from ci_doctor.correctness.localise.gate_answers import GateAnswers
from ci_doctor.correctness.report.differences import TELLING
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm, ExperimentPlan
from ci_doctor.correctness.verdict.compare import (
    ArmStart,
    DifferenceKind,
    counted,
    of_arm,
    outcomes,
)
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.load.shorter_prompt import prompt_length
from ci_doctor.model.verdict import Verdict

LOCALISED = (Verdict.REGRESSION, Verdict.FLAKY)
# Of so many differing requests the answers of the first pass are compared.
_MOST_COMPARED = 50


def subject_of(
    plan: ExperimentPlan, experiment: Experiment, decision: Decision
) -> LocalisedDifference | None:
    """The difference to localise; None if no start of either arm has answers to compare. Pure."""
    if decision.verdict not in LOCALISED:
        return None
    starts = _comparable(experiment)
    names = differing_requests(plan.ids, starts, decision)
    if not names:
        return None
    first = names[0]
    request = next(each for each in plan.requests if each.id == first)
    pairs = list(product(of_arm(starts, Arm.BASELINE), of_arm(starts, Arm.CANDIDATE)))
    differing = [one for one, other in pairs if one.answers[first] != other.answers[first]]
    return LocalisedDifference(
        request=request,
        requests=plan.requests,
        # Noise on another request must not pass for this difference.
        differing=_alike(first, names, decision),
        concurrency=min(plan.concurrency, len(plan.requests)),
        passes=plan.passes,
        resets=plan.arms[Arm.CANDIDATE].reset is not None,
        length=prompt_length(request),
        pairs=len(pairs),
        differing_pairs=len(differing),
    )


def _alike(first: str, names: Sequence[str], decision: Decision) -> tuple[str, ...]:
    """The differing requests that carry a regression; without such a test those of the same kind."""
    disputed = decision.test.disputed if decision.test else ()
    if first in disputed:
        return tuple(name for name in names if name in disputed)
    return tuple(name for name in names if decision.kinds[name] is decision.kinds[first])


def _comparable(experiment: Experiment) -> list[ArmStart]:
    """The starts that are evidence, and worked."""
    return [start for start in counted(experiment.starts) if start.answered and not start.failed]


def differing_requests(
    requests: Sequence[str], starts: Sequence[ArmStart], decision: Decision
) -> list[str]:
    """The requests that differ between starts of the two arms, the most telling first. Pure."""
    baseline, candidate = (of_arm(starts, arm) for arm in Arm)
    if not baseline or not candidate:
        return []
    disputed = decision.test.disputed if decision.test else ()
    names = []
    for request in requests:
        kind = decision.kinds.get(request)
        if kind in TELLING and len(outcomes(starts, request)) > 1:
            names.append((request not in disputed, TELLING.index(kind), request))
    # The sort is stable: of equal ones the first of the file comes first.
    names.sort(key=lambda each: each[:2])
    return [request for _, _, request in names]


def results_of(
    subject: LocalisedDifference, experiment: Experiment, decision: Decision
) -> tuple[ReducedResult, ...]:
    """What the experiment itself shows: its own condition, and its first pass alone.

    Raises InfraError if an answer can no longer be read.
    """
    own = ReducedResult(
        condition=subject.original,
        standing=ReducedStanding.DIFFERS,
        differing=subject.differing,
        compared=len(subject.differing),
        pairs=0,
    )
    if subject.passes == 1:
        return (own,)
    return own, _first_pass(subject, experiment, decision)


def _first_pass(
    subject: LocalisedDifference, experiment: Experiment, decision: Decision
) -> ReducedResult:
    gate = GateAnswers(experiment.comparison, experiment.outputs)
    names = subject.differing[:_MOST_COMPARED]
    comparable = {start.name for start in _comparable(experiment)}
    results = [each for each in experiment.compared if each.start.name in comparable]
    differing = tuple(name for name in names if _first_differs(name, results, gate, decision))
    return ReducedResult(
        condition=ReducedCondition(concurrency=subject.concurrency),
        standing=ReducedStanding.DIFFERS if differing else ReducedStanding.EQUAL,
        differing=differing,
        compared=len(names),
        pairs=0,
    )


def _first_differs(
    request: str, results: Sequence[StartResult], gate: GateAnswers, decision: Decision
) -> bool:
    answers: dict[Arm, set[str]] = {arm: set() for arm in Arm}
    for result in results:
        digest = result.digests.get(request, {}).get(1)
        if digest is not None:
            answers[result.start.arm].add(gate.key(request, digest))
    baseline, candidate = (answers[arm] for arm in Arm)
    if decision.kinds[request] is DifferenceKind.FLAKY:
        # The candidate gives nothing of its own: what is localised is a difference of two starts.
        return len(baseline | candidate) > 1
    return bool(candidate - baseline)
