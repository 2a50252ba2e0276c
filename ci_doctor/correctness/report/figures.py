# SPDX-License-Identifier: Apache-2.0
"""Reads the outputs of three pairs, and makes the figures of an experiment for programs."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import median_low

from msgspec.structs import asdict

from ci_doctor.correctness.report.alignment import AlignedRow, ranked
from ci_doctor.correctness.report.archive_findings import archive_use
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
from ci_doctor.correctness.verdict.compare import answering
from ci_doctor.correctness.verdict.decision import Decision, PermutationTest
from ci_doctor.correctness.verdict.starts import ArmStart, DifferenceKind, of_arm
from ci_doctor.model.facts.answers import (
    AlignedAnswers,
    AnswerMatrix,
    DecisionTest,
    DivergencePositions,
    LogProbRow,
    LookFacts,
    RequestBoundFacts,
    RequestRow,
    StartColumn,
    TokenNumber,
)
from ci_doctor.model.facts.correctness import CorrectnessFacts, FactDifference, IdentityFacts

_ALIGNED = 3
_ALTERNATIVES = 5
# Ten thousand requests without a difference have one bound, and need it once.
_MOST_BOUNDS = 100


def facts(
    experiment: Experiment, decision: Decision, differences: Sequence[AnswerDifference]
) -> CorrectnessFacts:
    """What the evidence shows; `differences` are all, hardest first.

    A caller that knows more replaces `identity` and sets what is None here.
    """
    starts = experiment.starts
    unit, positions = positions_of(differences)
    groups = groups_of(experiment)
    return CorrectnessFacts(
        requests=len(decision.kinds),
        starts=_starts(starts),
        kinds=_kinds(decision),
        clusters=tuple(tuple(names) for names in groups),
        differing=_differing(starts),
        matrix=_matrix(starts, decision),
        within=within(experiment),
        divergence=divergence_facts(str(unit), positions),
        differences_by=_by_hardness(differences),
        aligned=tuple(_shown(experiment, differences)),
        test=decision_test(decision.test),
        risk=decision.risk,
        settle=decision.settle,
        rare_bug_bound=decision.bound,
        bounds=_bounds(decision),
        suspects=suspects(experiment, differences),
        identity=_identity(experiment),
        ending=str(experiment.ending),
        archived=archive_use(starts),
    )


def _starts(starts: Sequence[ArmStart]) -> dict[str, int]:
    """How many starts each arm has, archived ones included."""
    counts = {}
    for arm in Arm:
        counts[str(arm)] = len(of_arm(starts, arm))
    return counts


def _kinds(decision: Decision) -> dict[str, int]:
    """How many requests are of each kind; a kind that no request has counts 0."""
    counts = {}
    for kind in DifferenceKind:
        counts[str(kind)] = decision.count(kind)
    return counts


def _shown(
    experiment: Experiment, differences: Sequence[AnswerDifference]
) -> Iterator[AlignedAnswers]:
    """The hardest differences side by side: each costs the reading of two outputs."""
    for difference in differences[:_ALIGNED]:
        rows = logprob_rows(experiment.outputs, difference)
        yield _aligned(difference, rows)


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
    rows = []
    for request, kind in decision.kinds.items():
        row = request_row(request, kind, starts)
        rows.append(row)
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
            continue
        # A new answer gets the next number; one that was there before keeps its own.
        number = numbers.setdefault(answer, len(numbers))
        classes.append(number)
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
    if test is None:
        return None
    looks = []
    for look in test.looks:
        fact = LookFacts(**asdict(look))
        looks.append(fact)
    return DecisionTest(**{**asdict(test), "looks": tuple(looks)})


def _bounds(decision: Decision) -> tuple[RequestBoundFacts, ...]:
    """What is not excluded, by request: the largest first, some hundred at most."""
    bounds = []
    for bound in decision.bounds[:_MOST_BOUNDS]:
        fact = RequestBoundFacts(**asdict(bound))
        bounds.append(fact)
    return tuple(bounds)


def _by_hardness(differences: Sequence[AnswerDifference]) -> dict[str, int]:
    # Softest first: the page draws the bars in this order.
    counts = dict.fromkeys(map(str, reversed(Hardness)), 0)
    for difference in differences:
        hardness = str(difference.divergence.hardness)
        counts[hardness] += 1
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
        apart=at.apart,
        logprobs=logprob_facts(rows),
    )


def logprob_facts(rows: Sequence[AlignedRow]) -> tuple[LogProbRow, ...]:
    """Log-probabilities by position, a side's own token first."""
    facts_by_row = []
    for row in rows:
        fact = LogProbRow(
            at=row.at,
            left=_alternatives(row.left),
            right=_alternatives(row.right),
            ulp=row.ulp,
        )
        facts_by_row.append(fact)
    return tuple(facts_by_row)


def _alternatives(token: Step | None) -> tuple[TokenNumber, ...]:
    numbers = []
    for each in ranked(token, _ALTERNATIVES):
        pair = (each.token, each.logprob)
        numbers.append(pair)
    return tuple(numbers)


def _identity(experiment: Experiment) -> IdentityFacts:
    """The facts of the starts, split into what is the same in all of them and what is not."""
    results = [result for result in counted_results(experiment) if result.facts]
    same: dict[str, str | None] = {}
    if results:
        same.update(results[0].facts)
    differences = []
    for fact, values in fact_differences(results).items():
        same.pop(fact, None)
        difference = FactDifference(fact=fact, values=dict(values))
        differences.append(difference)
    return IdentityFacts(facts=same, differences=tuple(differences))
