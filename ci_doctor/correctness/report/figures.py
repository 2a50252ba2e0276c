# SPDX-License-Identifier: Apache-2.0
"""The figures of an experiment for programs, and for the page that draws them. Pure, but for the lookup of three pairs."""

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median_low
from typing import Any

import msgspec

from ci_doctor.correctness.report.alignment import Row, ranked
from ci_doctor.correctness.report.differences import Difference, counted_results, logprob_rows
from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.correctness.report.picture import differing, positions_of
from ci_doctor.correctness.report.suspects import fact_differences, groups_of, suspects, within
from ci_doctor.correctness.report.tokens import Step
from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import ArmStart, DifferenceKind, answering, counted
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.risk import rare_bug_bound
from ci_doctor.model.verdict import Verdict

_ALIGNED = 3
_ALTERNATIVES = 5


def facts(
    experiment: Experiment, decision: Decision, found: Sequence[Difference]
) -> dict[str, Any]:
    """What the evidence says, as JSON values; `found` are all differences, hardest first.

    `identity` holds what is the same in every start, and what is not; a caller that knows more adds to it.
    """
    starts = experiment.starts
    return {
        "requests": len(decision.kinds),
        "starts": {str(arm): sum(start.arm is arm for start in starts) for arm in Arm},
        "kinds": {str(kind): decision.count(kind) for kind in DifferenceKind},
        "clusters": [list(names) for names in groups_of(experiment)],
        "differing": {
            f"{one.name}/{other.name}": differing(one, other)
            for one, other in combinations(answering(starts), 2)
        },
        "matrix": _matrix(starts, decision),
        "within": within(experiment),
        "divergence": _divergence(found),
        "differences_by": {
            str(kind): sum(each.divergence.hardness is kind for each in found)
            for kind in reversed(Hardness)
        },
        "aligned": [
            _aligned(each, logprob_rows(experiment.outputs, each)) for each in found[:_ALIGNED]
        ],
        "test": json.loads(msgspec.json.encode(decision.test)),
        "risk": decision.risk,
        "settle": decision.settle,
        "rare_bug_bound": _bound(experiment, decision),
        "suspects": list(suspects(experiment, decision, found)),
        "identity": _identity(experiment),
        "ending": str(experiment.ending),
    }


def _matrix(starts: Sequence[ArmStart], decision: Decision) -> dict[str, Any]:
    """Who answered what: each answer as its number in order of first appearance over the starts."""
    return {
        "starts": [
            {
                "name": start.name,
                "arm": str(start.arm),
                "archived": start.archived,
                "ok": not start.failed,
                "answered": start.answered,
            }
            for start in starts
        ],
        "requests": [
            {
                "id": request,
                "kind": str(kind),
                "classes": answer_classes([start.answers.get(request) for start in starts]),
            }
            for request, kind in decision.kinds.items()
        ],
    }


def answer_classes(answers: Sequence[str | None]) -> list[int | None]:
    """Each answer's number in order of first appearance, from 0; None for no answer."""
    numbers: dict[str, int] = {}
    return [
        None if answer is None else numbers.setdefault(answer, len(numbers)) for answer in answers
    ]


def _divergence(found: Sequence[Difference]) -> dict[str, Any] | None:
    unit, positions = positions_of(found)
    if not positions:
        return None
    return {
        "unit": str(unit),
        "positions": positions,
        "min": positions[0],
        "median": median_low(positions),
        "max": positions[-1],
    }


def _aligned(difference: Difference, rows: Sequence[Row]) -> dict[str, Any]:
    at, pair = difference.divergence, difference.pair
    return {
        "request": difference.request,
        "kind": str(difference.kind),
        "starts": [pair.first, pair.second],
        "pass": pair.number,
        "field": at.field,
        "unit": str(at.unit),
        "position": at.position,
        "hardness": str(at.hardness),
        "gap": at.gap,
        "before": at.before,
        "left": at.left,
        "right": at.right,
        "logprobs": row_facts(rows),
    }


def row_facts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Log-probabilities by place, a side's own token first."""
    return [
        {"at": row.at, "left": _choices(row.left), "right": _choices(row.right), "ulp": row.ulp}
        for row in rows
    ]


def _choices(said: Step | None) -> list[list[Any]]:
    return [[each.token, each.logprob] for each in ranked(said, _ALTERNATIVES)]


def _bound(experiment: Experiment, decision: Decision) -> float | None:
    """The rare bug that this many clean candidate starts leave possible; None where the verdict is not green."""
    clean = sum(
        start.arm is Arm.CANDIDATE and not start.failed for start in counted(experiment.starts)
    )
    if decision.verdict not in {Verdict.PASS, Verdict.FLAKY} or not clean:
        return None
    return rare_bug_bound(clean, experiment.rules.alpha)


def _identity(experiment: Experiment) -> dict[str, Any]:
    results = [result for result in counted_results(experiment) if result.facts]
    apart = fact_differences(results)
    same: Mapping[str, str] = results[0].facts if results else {}
    return {
        "facts": {fact: value for fact, value in same.items() if fact not in apart},
        "unknown": [],
        "differences": [{"fact": fact, "values": values} for fact, values in apart.items()],
    }
