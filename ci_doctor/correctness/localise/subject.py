# SPDX-License-Identifier: Apache-2.0
"""Which difference of an experiment is localised. Pure."""

from collections.abc import Sequence
from itertools import product

from ci_doctor.correctness.localise.trials import LocalisedDifference
from ci_doctor.correctness.report.differences import TELLING
from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.settings import Arm, ExperimentPlan
from ci_doctor.correctness.verdict.compare import (
    ArmStart,
    DifferenceKind,
    counted,
    of_arm,
    outcomes,
)
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.model.verdict import Verdict

LOCALISED = (Verdict.REGRESSION, Verdict.FLAKY, Verdict.INCONCLUSIVE)
# What is undecided is worth more starts where the baseline is steady: then no noise hides the cause.
_STEADY = (DifferenceKind.CHANGED, DifferenceKind.SOMETIMES)
# A start is left idle for as long as one took, within these bounds.
_PAUSE_S = (1.0, 10.0)


def subject_of(
    plan: ExperimentPlan, experiment: Experiment, decision: Decision
) -> LocalisedDifference | None:
    """The difference to localise; None if no start of either arm has answers to compare. Pure."""
    if decision.verdict not in LOCALISED:
        return None
    starts = _comparable(experiment)
    names = differing_requests(plan.ids, starts, decision)
    if decision.verdict is Verdict.INCONCLUSIVE:
        names = [name for name in names if decision.kinds[name] in _STEADY]
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
        pairs=len(pairs),
        differing_pairs=len(differing),
        pause_s=min(
            max(_PAUSE_S[0], *(each.duration_s for each in experiment.results)), _PAUSE_S[1]
        ),
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
