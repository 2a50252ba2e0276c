# SPDX-License-Identifier: Apache-2.0
"""An experiment and its decision as a report's cases, attempts and attachments. Pure."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ci_doctor.correctness.evidence.start_record import relative
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.verdict.compare import explain
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.starts import DifferenceKind
from ci_doctor.load.requests import Request
from ci_doctor.model.outcome import Attachment, Attempt, Case, CaseOutcome
from ci_doctor.model.verdict import Verdict, is_green


def cases(
    decision: Decision, requests: Sequence[Request], reasons: Mapping[str, str]
) -> tuple[Case, ...]:
    """One case a request; `reasons` holds an error by request id."""
    return tuple(_case(request, decision, reasons.get(request.id)) for request in requests)


def _case(request: Request, decision: Decision, reason: str | None) -> Case:
    kind = decision.kinds.get(request.id, DifferenceKind.UNANSWERED)
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
    return Case(group="requests", name=request.id, outcome=outcome, message=message, detail=reason)


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
