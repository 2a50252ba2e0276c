# SPDX-License-Identifier: Apache-2.0
"""Reads the outputs of three pairs, and makes the figures of an experiment for programs."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median_low

from msgspec.structs import asdict

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
from ci_doctor.correctness.verdict.decision import Decision, PermutationTest
from ci_doctor.correctness.verdict.risk import rare_bug_bound
from ci_doctor.model.facts.answers import (
    AlignedAnswers,
    AnswerMatrix,
    DecisionTest,
    DivergencePositions,
    LogProbRow,
    RequestRow,
    StartColumn,
    TokenNumber,
)
from ci_doctor.model.facts.correctness import CorrectnessFacts, FactDifference, IdentityFacts
from ci_doctor.model.verdict import Verdict

_ALIGNED = 3
_ALTERNATIVES = 5


def facts(
    experiment: Experiment, decision: Decision, differences: Sequence[AnswerDifference]
) -> CorrectnessFacts:
    """What the evidence shows; `differences` are all, hardest first.

    A caller that knows more replaces `identity` and sets what is None here.
    """
    starts = experiment.starts
    aligned = []
    for difference in differences[:_ALIGNED]:
        rows = logprob_rows(experiment.outputs, difference)
        aligned.append(_aligned(difference, rows))
    unit, positions = positions_of(differences)
    return CorrectnessFacts(
        requests=len(decision.kinds),
        starts={str(arm): len(of_arm(starts, arm)) for arm in Arm},
        kinds={str(kind): decision.count(kind) for kind in DifferenceKind},
        clusters=tuple(tuple(names) for names in groups_of(experiment)),
        differing=_differing(starts),
        matrix=_matrix(starts, decision),
        within=within(experiment),
        divergence=divergence_facts(str(unit), positions),
        differences_by=_by_hardness(differences),
        aligned=tuple(aligned),
        test=decision_test(decision.test),
        risk=decision.risk,
        settle=decision.settle,
        rare_bug_bound=_bound(experiment, decision),
        suspects=suspects(experiment, differences),
        identity=_identity(experiment),
        ending=str(experiment.ending),
    )


def _differing(starts: Sequence[ArmStart]) -> dict[str, int]:
    """By pair of starts, how many requests they answered differently."""
    counts = {}
    for one, other in combinations(answering(starts), 2):
        counts[f"{one.name}/{other.name}"] = differing(one, other)
    return counts


def _matrix(starts: Sequence[ArmStart], decision: Decision) -> AnswerMatrix:
    """Who answered what."""
    columns = []
    for start in starts:
        column = StartColumn(
            name=start.name,
            arm=str(start.arm),
            archived=start.archived,
            ok=not start.failed,
            answered=start.answered,
        )
        columns.append(column)
    rows = [request_row(request, kind, starts) for request, kind in decision.kinds.items()]
    return AnswerMatrix(starts=tuple(columns), requests=tuple(rows))


def request_row(request: str, kind: DifferenceKind, starts: Sequence[ArmStart]) -> RequestRow:
    """One request of the matrix."""
    answers = [start.answers.get(request) for start in starts]
    return RequestRow(id=request, kind=str(kind), classes=answer_classes(answers))


def answer_classes(answers: Sequence[str | None]) -> tuple[int | None, ...]:
    """Each answer's number in order of first appearance, from 0; None for no answer."""
    numbers: dict[str, int] = {}
    classes: list[int | None] = []
    for answer in answers:
        if answer is None:
            classes.append(None)
        else:
            classes.append(numbers.setdefault(answer, len(numbers)))
    return tuple(classes)


def divergence_facts(unit: str, positions: Sequence[int]) -> DivergencePositions | None:
    """The spread of sorted positions; None if there are none."""
    if not positions:
        return None
    return DivergencePositions(
        unit=unit,
        positions=tuple(positions),
        min=positions[0],
        median=median_low(positions),
        max=positions[-1],
    )


def decision_test(test: PermutationTest | None) -> DecisionTest | None:
    """The exact test of a decision, as facts."""
    return DecisionTest(**asdict(test)) if test else None


def _by_hardness(differences: Sequence[AnswerDifference]) -> dict[str, int]:
    # Softest first: the page draws the bars in this order.
    counts = dict.fromkeys(map(str, reversed(Hardness)), 0)
    for difference in differences:
        counts[str(difference.divergence.hardness)] += 1
    return counts


def _aligned(difference: AnswerDifference, rows: Sequence[AlignedRow]) -> AlignedAnswers:
    at = difference.divergence
    pair = difference.pair
    return AlignedAnswers(
        request=difference.request,
        kind=str(difference.kind),
        starts=(pair.first, pair.second),
        pass_=pair.number,
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
        logprobs=logprob_facts(rows),
    )


def logprob_facts(rows: Sequence[AlignedRow]) -> tuple[LogProbRow, ...]:
    """Log-probabilities by position, a side's own token first."""
    facts_by_row = []
    for row in rows:
        left = _alternatives(row.left)
        right = _alternatives(row.right)
        facts_by_row.append(LogProbRow(at=row.at, left=left, right=right, ulp=row.ulp))
    return tuple(facts_by_row)


def _alternatives(token: Step | None) -> tuple[TokenNumber, ...]:
    ranking = ranked(token, _ALTERNATIVES)
    return tuple((each.token, each.logprob) for each in ranking)


def _bound(experiment: Experiment, decision: Decision) -> float | None:
    """The rate of a bug that could hide behind the clean candidate starts; None unless green."""
    candidate = of_arm(counted(experiment.starts), Arm.CANDIDATE)
    clean = sum(not start.failed for start in candidate)
    if decision.verdict not in {Verdict.PASS, Verdict.FLAKY} or not clean:
        return None
    return rare_bug_bound(clean, experiment.rules.alpha)


def _identity(experiment: Experiment) -> IdentityFacts:
    """The facts of the starts, split into what is the same in all of them and what is not."""
    results = [result for result in counted_results(experiment) if result.facts]
    first: Mapping[str, str] = results[0].facts if results else {}
    same: dict[str, str | None] = dict(first)
    differences = []
    for fact, values in fact_differences(results).items():
        same.pop(fact, None)
        differences.append(FactDifference(fact=fact, values=dict(values)))
    return IdentityFacts(facts=same, differences=tuple(differences))
