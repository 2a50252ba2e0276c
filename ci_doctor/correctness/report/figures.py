# SPDX-License-Identifier: Apache-2.0
"""Reads the outputs of three pairs, and makes the figures of an experiment for programs."""

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median_low
from typing import Any

import msgspec

from ci_doctor.correctness.report.alignment import AlignedRow, ranked
from ci_doctor.correctness.report.clusters import fact_differences, groups_of, within
from ci_doctor.correctness.report.differences import (
    AnswerDifference,
    counted_results,
    logprob_rows,
)
from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.correctness.report.picture_differences import positions_of
from ci_doctor.correctness.report.picture_starts import differing
from ci_doctor.correctness.report.suspects import suspects
from ci_doctor.correctness.report.tokens import Step
from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import (
    ArmStart,
    DifferenceKind,
    answering,
    counted,
    of_arm,
)
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.risk import rare_bug_bound
from ci_doctor.model.verdict import Verdict

_ALIGNED = 3
_ALTERNATIVES = 5


def facts(
    experiment: Experiment, decision: Decision, differences: Sequence[AnswerDifference]
) -> dict[str, Any]:
    """What the evidence shows, as JSON values; `differences` are all, hardest first.

    `identity` holds what is the same in every start, and what is not. A caller that knows more adds
    it.
    """
    aligned = []
    for difference in differences[:_ALIGNED]:
        rows = logprob_rows(experiment.outputs, difference)
        aligned.append(_aligned(difference, rows))
    return {
        "requests": len(decision.kinds),
        "starts": {str(arm): len(of_arm(experiment.starts, arm)) for arm in Arm},
        "kinds": {str(kind): decision.count(kind) for kind in DifferenceKind},
        "clusters": [list(names) for names in groups_of(experiment)],
        "differing": _differing(experiment.starts),
        "matrix": _matrix(experiment.starts, decision),
        "within": within(experiment),
        "divergence": _divergence(differences),
        "differences_by": _by_hardness(differences),
        "aligned": aligned,
        "test": json.loads(msgspec.json.encode(decision.test)),
        "risk": decision.risk,
        "settle": decision.settle,
        "rare_bug_bound": _bound(experiment, decision),
        "suspects": list(suspects(experiment, differences)),
        "identity": _identity(experiment),
        "ending": str(experiment.ending),
    }


def _differing(starts: Sequence[ArmStart]) -> dict[str, int]:
    """By pair of starts, how many requests they answered differently."""
    counts = {}
    for one, other in combinations(answering(starts), 2):
        counts[f"{one.name}/{other.name}"] = differing(one, other)
    return counts


def _matrix(starts: Sequence[ArmStart], decision: Decision) -> dict[str, Any]:
    """Who answered what."""
    columns = []
    for start in starts:
        column = {
            "name": start.name,
            "arm": str(start.arm),
            "archived": start.archived,
            "ok": not start.failed,
            "answered": start.answered,
        }
        columns.append(column)
    rows = []
    for request, kind in decision.kinds.items():
        classes = answer_classes([start.answers.get(request) for start in starts])
        rows.append({"id": request, "kind": str(kind), "classes": classes})
    return {"starts": columns, "requests": rows}


def answer_classes(answers: Sequence[str | None]) -> list[int | None]:
    """Each answer's number in order of first appearance, from 0; None for no answer."""
    numbers: dict[str, int] = {}
    classes: list[int | None] = []
    for answer in answers:
        if answer is None:
            classes.append(None)
        else:
            classes.append(numbers.setdefault(answer, len(numbers)))
    return classes


def _divergence(differences: Sequence[AnswerDifference]) -> dict[str, Any] | None:
    unit, positions = positions_of(differences)
    if not positions:
        return None
    return {
        "unit": str(unit),
        "positions": positions,
        "min": positions[0],
        "median": median_low(positions),
        "max": positions[-1],
    }


def _by_hardness(differences: Sequence[AnswerDifference]) -> dict[str, int]:
    # Softest first: the page draws the bars in this order.
    counts = dict.fromkeys(map(str, reversed(Hardness)), 0)
    for difference in differences:
        counts[str(difference.divergence.hardness)] += 1
    return counts


def _aligned(difference: AnswerDifference, rows: Sequence[AlignedRow]) -> dict[str, Any]:
    at = difference.divergence
    pair = difference.pair
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


def row_facts(rows: Sequence[AlignedRow]) -> list[dict[str, Any]]:
    """Log-probabilities by position, a side's own token first."""
    facts_by_row = []
    for row in rows:
        left = _alternatives(row.left)
        right = _alternatives(row.right)
        facts_by_row.append({"at": row.at, "left": left, "right": right, "ulp": row.ulp})
    return facts_by_row


def _alternatives(token: Step | None) -> list[list[Any]]:
    return [[each.token, each.logprob] for each in ranked(token, _ALTERNATIVES)]


def _bound(experiment: Experiment, decision: Decision) -> float | None:
    """The rate of a bug that could hide behind the clean candidate starts; None unless green."""
    candidate = of_arm(counted(experiment.starts), Arm.CANDIDATE)
    clean = sum(not start.failed for start in candidate)
    if decision.verdict not in {Verdict.PASS, Verdict.FLAKY} or not clean:
        return None
    return rare_bug_bound(clean, experiment.rules.alpha)


def _identity(experiment: Experiment) -> dict[str, Any]:
    """The facts of the starts, split into what is the same in all of them and what is not."""
    results = [result for result in counted_results(experiment) if result.facts]
    differing_facts = fact_differences(results)
    first: Mapping[str, str] = results[0].facts if results else {}
    same = {fact: value for fact, value in first.items() if fact not in differing_facts}
    differences = [{"fact": fact, "values": values} for fact, values in differing_facts.items()]
    return {"facts": same, "unknown": [], "differences": differences}
