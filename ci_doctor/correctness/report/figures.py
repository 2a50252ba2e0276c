# SPDX-License-Identifier: Apache-2.0
"""Reads the outputs of three pairs, and makes the figures, cases, attempts and attachments of an experiment."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median_low

from msgspec.structs import asdict

from ci_doctor.correctness.report.differences import (
    AlignedRow,
    AnswerDifference,
    counted_results,
    logprob_rows,
    positions_of,
    ranked,
)
from ci_doctor.correctness.report.start_evidence import archive_use
from ci_doctor.correctness.report.suspects import (
    answer_classes,
    differing,
    fact_differences,
    groups_of,
    suspects,
    within,
)
from ci_doctor.correctness.report.tokens import Hardness, Step
from ci_doctor.correctness.results import Experiment, StartResult, relative
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import answering, explain
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.starts import ArmStart, DifferenceKind, of_arm
from ci_doctor.model.facts.correctness import (
    AlignedAnswers,
    AnswerFacts,
    AnswerMatrix,
    CorrectnessFacts,
    DivergencePositions,
    FactDifference,
    IdentityFacts,
    LogProbRow,
    RequestRow,
    StartColumn,
    TokenNumber,
)
from ci_doctor.model.outcome import Attachment, Attempt, Case, CaseOutcome
from ci_doctor.model.verdict import Verdict, is_green

# --- an experiment and its decision as a report's cases, attempts and attachments ---


def cases(
    decision: Decision, requests: Iterable[str], reasons: Mapping[str, str]
) -> tuple[Case, ...]:
    """One case a request; `reasons` holds an error by request id."""
    return tuple(_case(request, decision, reasons.get(request)) for request in requests)


def _case(request: str, decision: Decision, reason: str | None) -> Case:
    kind = decision.kinds.get(request, DifferenceKind.UNANSWERED)
    message = explain(kind)
    if decision.verdict in {Verdict.VOID, Verdict.INFRA, Verdict.FAILED}:
        # Answers that prove nothing must not look like passed tests to a reader that only counts.
        outcome = CaseOutcome.ERROR
        message = decision.reason
    elif kind in {DifferenceKind.EQUAL, DifferenceKind.FLAKY}:
        outcome = CaseOutcome.PASSED
    elif is_green(decision.verdict) and kind is not DifferenceKind.UNANSWERED:
        # The difference is noise to the test, or the policy accepts it.
        outcome = CaseOutcome.PASSED
    elif decision.verdict is Verdict.REGRESSION:
        outcome = CaseOutcome.FAILED
    else:
        outcome = CaseOutcome.ERROR
    return Case(group="requests", name=request, outcome=outcome, message=message, detail=reason)


def attempts(experiment: Experiment, directory: Path) -> tuple[Attempt, ...]:
    """One attempt a start, in the order in which they were made."""
    return tuple(_attempt(result, directory) for result in experiment.results)


def _attempt(result: StartResult, directory: Path) -> Attempt:
    start = result.start
    complete = start.answered == len(start.answers)
    return Attempt(
        name="warm-up" if result.warm_up else f"{start.name} {start.arm}",
        outcome=_outcome(result),
        ok=complete and result.failure is None and not result.cut_short,
        duration_s=round(result.duration_s, 2),
        log=relative(result.logs[-1], directory) if result.logs else None,
        facts={
            "answered": start.answered,
            "asked": len(start.answers),
            "cut_short": result.cut_short,
            "ready_after_s": result.ready_after_s and round(result.ready_after_s, 2),
        },
    )


def _outcome(result: StartResult) -> str:
    start = result.start
    answered = f"answered {start.answered}/{len(start.answers)}"
    if result.cut_short:
        return f"cut short, {answered}"
    if result.failure is not None:
        message = result.failure.message
        # "answered 0/12" would only repeat that the service failed.
        if not start.answered:
            return message
        return f"{message}; {answered}"
    if result.warm_up:
        return f"{answered}; not compared"
    return answered


def attachments(experiment: Experiment, samples: Path, directory: Path) -> tuple[Attachment, ...]:
    """The samples, and the logs of what failed; every other log is named by its attempt."""
    files = [
        Attachment(
            path=relative(samples, directory),
            title="samples",
            media_type="application/jsonl",
        )
    ]
    for result in experiment.results:
        if result.failure is None:
            continue
        of = "the warm-up" if result.warm_up else result.start.name
        for log in result.logs:
            path = relative(log, directory)
            files.append(Attachment(path=path, title=f"log of {of}"))
    return tuple(files)


# --- reads the outputs of three pairs, and makes the figures of an experiment for programs ---

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
    shared = answer_facts(experiment, decision, differences, list(decision.kinds))
    return CorrectnessFacts(
        **asdict(shared),
        differing=_differing(starts),
        rare_bug_bound=decision.bound,
        bounds=decision.bounds[:_MOST_BOUNDS],
        suspects=suspects(experiment, differences),
        identity=_identity(experiment),
        ending=str(experiment.ending),
        archived=archive_use(starts),
    )


def answer_facts(
    experiment: Experiment,
    decision: Decision,
    differences: Sequence[AnswerDifference],
    rows: Sequence[str],
) -> AnswerFacts:
    """What a run and collected samples both show; `rows` are the requests of the matrix."""
    starts = experiment.starts
    unit, positions = positions_of(differences)
    return AnswerFacts(
        requests=len(decision.kinds),
        starts={str(arm): len(of_arm(starts, arm)) for arm in Arm},
        kinds={str(kind): decision.count(kind) for kind in DifferenceKind},
        clusters=tuple(tuple(names) for names in groups_of(experiment)),
        matrix=_matrix(starts, decision, rows),
        within=within(experiment),
        divergence=_divergence(str(unit), positions),
        differences_by=_by_hardness(differences),
        # Each costs the reading of two outputs.
        aligned=tuple(
            _aligned(each, logprob_rows(experiment.outputs, each))
            for each in differences[:_ALIGNED]
        ),
        test=decision.test,
        risk=decision.risk,
        settle=decision.settle,
    )


def _differing(starts: Sequence[ArmStart]) -> dict[str, int]:
    """By pair of starts, how many requests they answered differently."""
    counts = {}
    for one, other in combinations(answering(starts), 2):
        counts[f"{one.name}/{other.name}"] = differing(one, other)
    return counts


def _matrix(
    starts: Sequence[ArmStart], decision: Decision, requests: Sequence[str]
) -> AnswerMatrix:
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
    for request in requests:
        answers = [start.answers.get(request) for start in starts]
        kind = str(decision.kinds[request])
        rows.append(RequestRow(id=request, kind=kind, classes=answer_classes(answers)))
    left_out = len(decision.kinds) - len(rows)
    return AnswerMatrix(starts=tuple(columns), requests=tuple(rows), left_out=left_out)


def _divergence(unit: str, positions: Sequence[int]) -> DivergencePositions | None:
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


def _by_hardness(differences: Sequence[AnswerDifference]) -> dict[str, int]:
    # Softest first: the page draws the bars in this order.
    counts = dict.fromkeys(map(str, reversed(Hardness)), 0)
    for difference in differences:
        hardness = str(difference.divergence.hardness)
        counts[hardness] += 1
    return counts


def _aligned(difference: AnswerDifference, rows: Sequence[AlignedRow]) -> AlignedAnswers:
    pair = difference.pair
    return AlignedAnswers(
        request=difference.request,
        kind=str(difference.kind),
        starts=(pair.first, pair.second),
        pass_=pair.number,
        logprobs=logprob_facts(rows),
        **asdict(difference.divergence),
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
