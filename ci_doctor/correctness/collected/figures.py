# SPDX-License-Identifier: Apache-2.0
"""The figures of collected samples for programs, and for the page that draws them. Pure."""

from collections import Counter
from collections.abc import Sequence
from statistics import median_low
from typing import Any

from msgspec import to_builtins

from ci_doctor.correctness.collected.counts import cluster_names, kind_counts
from ci_doctor.correctness.collected.differences import (
    EXAMINED,
    SHOWN,
    TELLING,
    CollectedDifference,
)
from ci_doctor.correctness.collected.settle import Collected
from ci_doctor.correctness.report.figures import answer_classes
from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.correctness.report.start_findings import distinct_errors
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import DifferenceKind, of_arm
from ci_doctor.correctness.verdict.decision import Decision

MOST_ROWS = 1000
_MOST_ERRORS = 20


def facts(
    collected: Collected, decision: Decision, differences: Sequence[CollectedDifference]
) -> dict[str, Any]:
    """The figures, as JSON values."""
    survey = collected.survey
    starts = collected.starts
    kinds = kind_counts(collected, decision)
    differing = sum(kinds[kind] for kind in TELLING)
    return {
        "requests": len(survey.requests),
        "aligned_by": survey.aligned,
        "passes": survey.passes,
        "files": _files(collected),
        "starts": {str(arm): len(of_arm(starts, arm)) for arm in Arm},
        "answered": {start.name: collected.answered(start) for start in starts},
        "kinds": {str(kind): number for kind, number in kinds.items()},
        "clusters": [list(names) for names in cluster_names(collected)],
        "matrix": _matrix(collected, decision),
        "within": dict(collected.within),
        "divergence": _divergence(differences),
        "differences_by": _by_hardness(differences),
        "examined": {"differing": differing, "read": min(EXAMINED, differing)},
        "aligned": [_aligned(each) for each in differences[:SHOWN]],
        "test": to_builtins(decision.test),
        "risk": decision.risk,
        "settle": decision.settle,
        "errors": _errors(collected),
    }


def _files(collected: Collected) -> dict[str, dict[str, str]]:
    files = {}
    for start in collected.survey.starts:
        source = start.source
        files[start.name] = {"path": str(source.path), "format": str(source.form)}
    return files


def _matrix(collected: Collected, decision: Decision) -> dict[str, Any]:
    """Who answered what, for at most MOST_ROWS of the requests that are not the same everywhere."""
    total = len(collected.survey.requests)
    rows = []
    for request in list(collected.survey.odd)[:MOST_ROWS]:
        kind = decision.kinds.get(request, DifferenceKind.UNANSWERED)
        classes = answer_classes([start.answers.get(request) for start in collected.starts])
        rows.append({"id": request, "kind": str(kind), "classes": classes})
    columns = []
    for start in collected.starts:
        answered = collected.answered(start)
        column = {
            "name": start.name,
            "arm": str(start.arm),
            "archived": False,
            "ok": answered == total,
            "answered": answered,
        }
        columns.append(column)
    return {"starts": columns, "requests": rows, "left_out": total - len(rows)}


def _divergence(differences: Sequence[CollectedDifference]) -> dict[str, Any] | None:
    by_unit: dict[str, list[int]] = {}
    for difference in differences:
        at = difference.divergence
        if at.position is not None:
            by_unit.setdefault(str(at.unit), []).append(at.position)
    if not by_unit:
        return None
    unit = max(by_unit, key=lambda each: len(by_unit[each]))
    positions = sorted(by_unit[unit])
    return {
        "unit": unit,
        "positions": positions,
        "min": positions[0],
        "median": median_low(positions),
        "max": positions[-1],
    }


def _by_hardness(differences: Sequence[CollectedDifference]) -> dict[str, int]:
    counts = Counter(difference.divergence.hardness for difference in differences)
    return {str(hardness): counts[hardness] for hardness in Hardness}


def _aligned(difference: CollectedDifference) -> dict[str, Any]:
    divergence: dict[str, Any] = to_builtins(difference.divergence)
    return {
        "request": difference.request,
        "kind": str(difference.kind),
        "starts": [difference.first, difference.second],
        **divergence,
        "logprobs": [],
    }


def _errors(collected: Collected) -> dict[str, dict[str, str]]:
    errors = {}
    for name, of_start in collected.errors.items():
        errors[name] = dict(distinct_errors(of_start, _MOST_ERRORS))
    return errors
