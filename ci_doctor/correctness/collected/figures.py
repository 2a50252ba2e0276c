# SPDX-License-Identifier: Apache-2.0
"""The figures of collected samples for programs, and for the page that draws them. Pure."""

from collections.abc import Sequence
from itertools import islice

from ci_doctor.correctness.collected.counts import cluster_names, kind_counts
from ci_doctor.correctness.collected.differences import (
    EXAMINED,
    SHOWN,
    TELLING,
    CollectedDifference,
)
from ci_doctor.correctness.collected.reread import Collected
from ci_doctor.correctness.report.figures import decision_test, divergence_facts, request_row
from ci_doctor.correctness.report.findings import distinct_errors
from ci_doctor.correctness.report.tokens import Hardness
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.starts import DifferenceKind, of_arm
from ci_doctor.model.facts.answers import (
    AlignedAnswers,
    AnswerMatrix,
    DivergencePositions,
    LevelFacts,
    StartColumn,
)
from ci_doctor.model.facts.compare import CompareFacts, ExaminedRequests, SampleFile

MOST_ROWS = 1000
_MOST_ERRORS = 20


def facts(
    collected: Collected,
    decision: Decision,
    differences: Sequence[CollectedDifference],
    levels: tuple[LevelFacts, ...] = (),
) -> CompareFacts:
    """The figures of both sides and of the decision."""
    survey = collected.survey
    kinds = kind_counts(collected, decision)
    differing = sum(kinds[kind] for kind in TELLING)
    return CompareFacts(
        requests=len(survey.requests),
        aligned_by=survey.aligned,
        passes=survey.passes,
        files=_files(collected),
        starts=_starts(collected),
        answered=_answered(collected),
        kinds={str(kind): number for kind, number in kinds.items()},
        clusters=cluster_names(collected),
        matrix=_matrix(collected, decision),
        within=dict(collected.within),
        divergence=_divergence(differences),
        differences_by=_by_hardness(differences),
        examined=ExaminedRequests(differing=differing, read=min(EXAMINED, differing)),
        aligned=tuple(map(_aligned, differences[:SHOWN])),
        test=decision_test(decision.test),
        risk=decision.risk,
        settle=decision.settle,
        errors=_errors(collected),
        levels=levels,
    )


def _starts(collected: Collected) -> dict[str, int]:
    """How many starts each side has."""
    counts = {}
    for arm in Arm:
        counts[str(arm)] = len(of_arm(collected.starts, arm))
    return counts


def _answered(collected: Collected) -> dict[str, int]:
    """How many requests each start answered."""
    counts = {}
    for start in collected.starts:
        counts[start.name] = collected.answered(start)
    return counts


def _files(collected: Collected) -> dict[str, SampleFile]:
    files = {}
    for start in collected.survey.starts:
        source = start.source
        files[start.name] = SampleFile(path=str(source.path), format=str(source.form))
    return files


def _matrix(collected: Collected, decision: Decision) -> AnswerMatrix:
    """Who answered what, for at most MOST_ROWS of the requests that are not the same everywhere."""
    total = len(collected.survey.requests)
    rows = []
    for request in islice(collected.survey.odd, MOST_ROWS):
        kind = decision.kinds.get(request, DifferenceKind.UNANSWERED)
        row = request_row(request, kind, collected.starts)
        rows.append(row)
    columns = []
    for start in collected.starts:
        answered = collected.answered(start)
        column = StartColumn(
            name=start.name,
            arm=str(start.arm),
            ok=answered == total,
            answered=answered,
        )
        columns.append(column)
    return AnswerMatrix(starts=tuple(columns), requests=tuple(rows), left_out=total - len(rows))


def _divergence(differences: Sequence[CollectedDifference]) -> DivergencePositions | None:
    by_unit: dict[str, list[int]] = {}
    for difference in differences:
        at = difference.divergence
        if at.position is None:
            continue
        positions = by_unit.setdefault(str(at.unit), [])
        positions.append(at.position)
    if not by_unit:
        return None
    # Positions of two units have no common axis: those of the more frequent unit are drawn.
    unit = max(by_unit, key=lambda each: len(by_unit[each]))
    positions = sorted(by_unit[unit])
    return divergence_facts(unit, positions)


def _by_hardness(differences: Sequence[CollectedDifference]) -> dict[str, int]:
    counts = dict.fromkeys(map(str, Hardness), 0)
    for difference in differences:
        hardness = str(difference.divergence.hardness)
        counts[hardness] += 1
    return counts


def _aligned(difference: CollectedDifference) -> AlignedAnswers:
    at = difference.divergence
    return AlignedAnswers(
        request=difference.request,
        kind=str(difference.kind),
        starts=(difference.first, difference.second),
        field=at.field,
        choice=at.choice,
        unit=str(at.unit),
        position=at.position,
        hardness=str(at.hardness),
        gap=at.gap,
        ulp=at.ulp,
        before=at.before,
        left=at.left,
        right=at.right,
        apart=at.apart,
    )


def _errors(collected: Collected) -> dict[str, dict[str, str]]:
    errors = {}
    for name, of_start in collected.errors.items():
        errors[name] = dict(distinct_errors(of_start, _MOST_ERRORS))
    return errors
