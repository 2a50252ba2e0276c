# SPDX-License-Identifier: Apache-2.0
"""An experiment and its decision in the words of a report. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from ci_doctor.correctness.compare import Kind, Start, clusters, explain, spoken
from ci_doctor.correctness.decide import Decision
from ci_doctor.correctness.differences import Difference
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.load.requests import Request
from ci_doctor.model.report import Attachment, Attempt, Case, Outcome, Section
from ci_doctor.model.verdict import Verdict


def sections(experiment: Experiment, decision: Decision) -> tuple[Section, ...]:
    """What a person wants to know, in the order of their questions: how many starts, who agrees with whom, how much."""
    starts = experiment.starts
    if not starts:
        return ()
    grouped = "  ".join("{" + " ".join(names) + "}" for names in clusters(spoken(starts)))
    lines = (
        _starts_line(starts),
        *((f"clusters   {grouped}",) if grouped else ()),
        *_pairs_line(starts),
        "requests   " + _kinds(decision),
    )
    return (Section(title="Evidence", lines=lines),)


def _starts_line(starts: Sequence[Start]) -> str:
    names = [" ".join(start.name for start in starts if start.arm is arm) or "none" for arm in Arm]
    answered = {f"{start.answered}/{len(start.answers)}" for start in starts}
    each = ", ".join(f"{start.name} {start.answered}/{len(start.answers)}" for start in starts)
    if len(answered) == 1:
        each = f"answered {answered.pop()} each"
    return f"starts     {' | '.join(names)}   {each}"


def _pairs_line(starts: Sequence[Start]) -> Iterator[str]:
    baseline = [start for start in spoken(starts) if start.arm is Arm.BASELINE]
    candidate = [start for start in spoken(starts) if start.arm is Arm.CANDIDATE]
    kinds = {"A/A": combinations(baseline, 2), "A/B": product(baseline, candidate), "B/B": combinations(candidate, 2)}
    told = []
    for name, pairs in kinds.items():
        numbers = sorted({differing(one, other) for one, other in pairs})
        if numbers:
            told.append(f"{name} {numbers[0]}" + (f" to {numbers[-1]}" if len(numbers) > 1 else ""))
    if told:
        yield "differing  " + "   ".join(told) + f"   of {len(starts[0].answers)} requests"


def differing(one: Start, other: Start) -> int:
    """How many requests two starts answered differently."""
    return sum(one.answers[request] != other.answers.get(request) for request in one.answers)


def _kinds(decision: Decision) -> str:
    words = [f"{decision.count(kind)} {kind}" for kind in Kind if decision.count(kind)]
    return ", ".join(words) or "none"


def cases(decision: Decision, requests: Sequence[Request], reasons: Mapping[str, str]) -> tuple[Case, ...]:
    """One case a request; `reasons` holds an error by request id."""
    return tuple(_case(request, decision, reasons.get(request.id)) for request in requests)


def _case(request: Request, decision: Decision, reason: str | None) -> Case:
    kind = decision.kinds.get(request.id, Kind.UNANSWERED)
    message = explain(kind)
    if decision.verdict in {Verdict.VOID, Verdict.INFRA}:
        # Answers that prove nothing must not look like passed tests to a reader that only counts.
        outcome, message = Outcome.ERROR, decision.reason
    elif kind in {Kind.EQUAL, Kind.FLAKY}:
        outcome = Outcome.PASSED
    else:
        outcome = Outcome.FAILED if decision.verdict is Verdict.REGRESSION else Outcome.ERROR
    return Case(group="requests", name=request.id, outcome=outcome, message=message, detail=reason)


def attempts(experiment: Experiment, directory: Path) -> tuple[Attempt, ...]:
    """One attempt a start, in the order in which they were made."""
    return tuple(
        Attempt(
            name=f"{result.start.name} {result.start.arm}",
            outcome=_outcome(result),
            ok=result.failure is None and not result.cut_short and result.start.answered == len(result.start.answers),
            duration_s=round(result.duration_s, 2),
            log=_relative(result.logs[-1], directory) if result.logs else None,
            facts={
                "answered": result.start.answered,
                "asked": len(result.start.answers),
                "cut_short": result.cut_short,
            },
        )
        for result in experiment.results
    )


def _outcome(result: StartResult) -> str:
    answered = f"answered {result.start.answered}/{len(result.start.answers)}"
    if result.cut_short:
        return f"cut short, {answered}"
    if result.failure is not None:
        return f"{result.failure.message}; {answered}" if result.start.answered else result.failure.message
    return answered


def attachments(experiment: Experiment, samples: Path, directory: Path) -> tuple[Attachment, ...]:
    """The samples, and the logs of what failed; every other log is named by its attempt."""
    logs = [
        Attachment(path=_relative(log, directory), title=f"log of {result.start.name}")
        for result in experiment.results
        if result.failure is not None
        for log in result.logs
    ]
    return (Attachment(path=_relative(samples, directory), title="samples", media_type="application/jsonl"), *logs)


def _relative(path: Path, directory: Path) -> str:
    return str(path.relative_to(directory)) if path.is_relative_to(directory) else str(path)


def facts(experiment: Experiment, decision: Decision, shown: Sequence[Difference]) -> dict[str, Any]:
    """The figures, for programs."""
    starts = experiment.starts
    return {
        "requests": len(decision.kinds),
        "starts": {str(arm): sum(start.arm is arm for start in starts) for arm in Arm},
        "answered": {start.name: start.answered for start in starts},
        "kinds": {str(kind): decision.count(kind) for kind in Kind},
        "not_equal": {request: str(kind) for request, kind in decision.kinds.items() if kind is not Kind.EQUAL},
        "clusters": [list(names) for names in clusters(spoken(starts))],
        "differing": {
            f"{one.name}/{other.name}": differing(one, other) for one, other in combinations(spoken(starts), 2)
        },
        "first_divergence": _divergence_facts(shown[0]) if shown else None,
        "ending": str(experiment.ending),
    }


def _divergence_facts(difference: Difference) -> dict[str, Any]:
    told: dict[str, Any] = to_builtins(difference.divergence)
    return {**told, "starts": [difference.first, difference.second], "line": difference.request.line}
