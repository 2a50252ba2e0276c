# SPDX-License-Identifier: Apache-2.0
"""Makes the facts, cases, attempts and attachments of an experiment and its decision. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median_low
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.report.differences import ALIGNED, counted_results, positions_of
from ci_doctor.correctness.report.start_evidence import archive_use
from ci_doctor.correctness.report.suspects import (
    differing,
    fact_differences,
    groups_of,
    suspects,
    within,
)
from ci_doctor.correctness.results import Experiment, StartResult, relative
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import answering, explain
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.mix_test import MISSING, pattern
from ci_doctor.correctness.verdict.starts import ArmStart, DifferenceKind, of_arm
from ci_doctor.model.facts.correctness import (
    AlignedAnswers,
    AnswerFacts,
    AnswerMatrix,
    CorrectnessFacts,
    DeviceFacts,
    DivergencePositions,
    FactDifference,
    Hardness,
    IdentityFacts,
    RequestRow,
    StartColumn,
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
    asked = len(start.answers)
    answered = outcome = f"answered {start.answered}/{asked}"
    if result.cut_short:
        outcome = f"cut short, {answered}"
    elif result.failure is not None:
        # "answered 0/12" would only repeat that the service failed.
        more = f"; {answered}" if start.answered else ""
        outcome = f"{result.failure.message}{more}"
    elif result.warm_up:
        outcome = f"{answered}; not compared"
    return Attempt(
        name="warm-up" if result.warm_up else f"{start.name} {start.arm}",
        outcome=outcome,
        ok=start.answered == asked and result.failure is None and not result.cut_short,
        duration_s=round(result.duration_s, 2),
        log=relative(result.logs[-1], directory) if result.logs else None,
        facts={
            "answered": start.answered,
            "asked": asked,
            "cut_short": result.cut_short,
            "ready_after_s": result.ready_after_s and round(result.ready_after_s, 2),
            "peak_rss": max((each.peak_rss or 0 for each in result.services), default=0) or None,
        },
    )


def attachments(experiment: Experiment, samples: Path, directory: Path) -> tuple[Attachment, ...]:
    """The samples, and the logs of what failed; every other log is named by its attempt."""
    path = relative(samples, directory)
    logs = [
        (log, "the warm-up" if result.warm_up else result.start.name)
        for result in experiment.results
        if result.failure is not None
        for log in result.logs
    ]
    return (
        Attachment(path=path, title="samples", media_type="application/jsonl"),
        *(Attachment(path=relative(log, directory), title=f"log of {of}") for log, of in logs),
    )


# --- the facts of an experiment, from which people get tables and programs figures ---

# Ten thousand requests without a difference have one bound, and need it once.
_MOST_BOUNDS = 100


def facts(
    experiment: Experiment, decision: Decision, differences: Sequence[AlignedAnswers]
) -> CorrectnessFacts:
    """What the evidence shows; `differences` are all, hardest first.

    A caller that knows more replaces `identity` and sets what is None here.
    """
    compared = experiment.compared
    return CorrectnessFacts(
        **answer_facts(experiment, decision, differences, list(decision.kinds)),
        rare_bug_bound=decision.bound,
        bounds=decision.bounds[:_MOST_BOUNDS],
        identity=_identity(experiment),
        ending=str(experiment.ending),
        proof=tuple(
            replace(reading, start=each.start.name) for each in compared for reading in each.proof
        ),
        shared=tuple(
            replace(each.shared, start=each.start.name)
            for each in compared
            if each.shared.count or each.shared.read or each.shared.unseen
        ),
        control=tuple(
            replace(each.control, start=each.name) for each in experiment.starts if each.control
        ),
        devices=tuple(
            DeviceFacts(start=each.name, devices=each.devices)
            for each in experiment.starts
            if each.devices
        ),
    )


def answer_facts(
    experiment: Experiment,
    decision: Decision,
    differences: Sequence[AlignedAnswers],
    rows: Sequence[str],
) -> dict[str, Any]:
    """The fields of AnswerFacts, of a run and of collected samples; `rows` are the matrix's requests."""
    starts = experiment.starts
    by_hardness = Counter(each.hardness for each in differences)
    shared = AnswerFacts(
        requests=len(decision.kinds) or max((len(start.answers) for start in starts), default=0),
        starts={str(arm): len(of_arm(starts, arm)) for arm in Arm},
        kinds={str(kind): decision.count(kind) for kind in DifferenceKind},
        clusters=tuple(map(tuple, groups_of(experiment))),
        matrix=_matrix(starts, decision, rows),
        differing={
            f"{one.name}/{other.name}": differing(one, other)
            for one, other in combinations(answering(starts), 2)
        },
        within=within(experiment),
        divergence=_divergence(differences),
        # Softest first: the page draws the bars in this order.
        differences_by={str(each): by_hardness[each] for each in reversed(Hardness)},
        aligned=tuple(differences[:ALIGNED]),
        test=decision.test,
        risk=decision.risk,
        settle=decision.settle,
        suspects=suspects(experiment, differences),
        archived=archive_use(starts),
    )
    return {name: getattr(shared, name) for name in shared.__struct_fields__}


def _matrix(
    starts: Sequence[ArmStart], decision: Decision, requests: Sequence[str]
) -> AnswerMatrix:
    """Who answered what."""
    columns = [
        StartColumn(
            name=start.name,
            arm=str(start.arm),
            archived=start.archived,
            ok=not start.failed,
            answered=start.answered,
        )
        for start in starts
    ]
    rows = [
        RequestRow(
            id=request,
            kind=str(decision.kinds[request]),
            classes=tuple(
                None if each == MISSING else each
                for each in pattern([start.answers.get(request) for start in starts])
            ),
        )
        for request in requests
    ]
    left_out = len(decision.kinds) - len(rows)
    return AnswerMatrix(starts=tuple(columns), requests=tuple(rows), left_out=left_out)


def _divergence(differences: Sequence[AlignedAnswers]) -> DivergencePositions | None:
    """The spread of the positions; None if there are none."""
    unit, positions = positions_of(differences)
    if not positions:
        return None
    return DivergencePositions(
        unit=str(unit),
        positions=tuple(positions),
        min=positions[0],
        # A position that some answer has, and not the middle between two.
        median=median_low(positions),
        max=positions[-1],
    )


def _identity(experiment: Experiment) -> IdentityFacts:
    """The facts of the starts, split into what is the same in all of them and what is not."""
    results = [result for result in counted_results(experiment) if result.facts]
    differences = fact_differences(results)
    first = results[0].facts if results else {}
    return IdentityFacts(
        facts={fact: value for fact, value in first.items() if fact not in differences},
        differences=tuple(
            FactDifference(fact=fact, values=dict(values)) for fact, values in differences.items()
        ),
    )
