# SPDX-License-Identifier: Apache-2.0
"""The findings about starts: failed services, requests without an answer, notes. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness import rules
from ci_doctor.correctness.report.control_report import control_findings
from ci_doctor.correctness.report.suspicious_answers import suspicious_answers
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.load.requests import Request
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.service import FailureKind, LeftBehind, ServiceFailure
from ci_doctor.model.verdict import Verdict
from ci_doctor.services.findings import cause_words, leak_findings, with_next_step

_SHOWN = 3

# What went wrong in a start: (request, text), sorted. A tuple, so that it can be a key.
_Errors = tuple[tuple[str, str], ...]


class _FailureGroup(Struct, frozen=True):
    """What the failures of one finding have in common."""

    arm: Arm
    service: str
    kind: FailureKind
    cut_short: bool


def start_findings(
    experiment: Experiment,
    decision: Decision,
    requests_file: str,
    lines: Mapping[str, int | None],
) -> Iterator[Finding]:
    """What went wrong in starts; `lines` holds the line of each request in the requests file.

    A start that the budget cut short is no evidence. What stood in its way is shown all the same.
    """
    yield from failure_findings(experiment, decision)
    yield from _unanswered(experiment, requests_file, lines)


def start_notes(experiment: Experiment, requests: Sequence[Request]) -> Iterator[Finding]:
    """What is worth knowing of the starts and decides nothing."""
    yield from _throttled(experiment.results)
    yield from _empty(experiment.results)
    starts = [result.start for result in experiment.results]
    yield from suspicious_answers(starts, requests)
    yield from control_findings(starts)
    yield from _killed(experiment.results)
    yield from leak_findings(all_left(experiment))


def all_left(experiment: Experiment) -> LeftBehind:
    """What all starts have left behind together."""
    left = [result.left_behind for result in experiment.results]
    return LeftBehind(
        things=tuple(thing for each in left for thing in each.things),
        unseen=tuple(dict.fromkeys(name for each in left for name in each.unseen)),
    )


def failure_findings(experiment: Experiment, decision: Decision) -> Iterator[Finding]:
    """The services that failed: the first failure of each kind and arm, with all its starts."""
    names: dict[_FailureGroup, list[str]] = {}
    first: dict[_FailureGroup, ServiceFailure] = {}
    for result in experiment.results:
        failure = result.failure
        if failure is None:
            continue
        start = result.start
        group = _FailureGroup(start.arm, failure.service, failure.kind, result.cut_short)
        names.setdefault(group, []).append(start.name)
        first.setdefault(group, failure)
    for group, failure in first.items():
        starts = ", ".join(names[group])
        if group.cut_short:
            starts = f"{starts}, cut short by the budget"
        rule = rules.OF_FAILURE[group.kind]
        said = failure
        if decision.verdict is not Verdict.INFRA:
            # The words agree with the exit code: no retry is asked for.
            said = replace(failure, kind=FailureKind.DIED)
        yield rule.finding(
            f"{group.arm} ({starts}): {failure.message}",
            evidence=(*failure.evidence(), *cause_words(said)),
            remedy=with_next_step(None, failure),
            severity=_blame(group, decision),
        )


def _blame(group: _FailureGroup, decision: Decision) -> Severity:
    """An error only if the failure is the regression."""
    regression = decision.verdict is Verdict.REGRESSION
    if regression and group.arm is Arm.CANDIDATE and not group.cut_short:
        return Severity.ERROR
    return Severity.WARNING


def _unanswered(
    experiment: Experiment, requests_file: str, lines: Mapping[str, int | None]
) -> Iterator[Finding]:
    """Requests without an answer; starts with the same errors share a finding."""
    groups: dict[_Errors, list[str]] = {}
    for result in experiment.results:
        # The budget leaves the rest of a start unanswered: that is no fault of the service.
        if result.errors and not result.cut_short:
            errors = tuple(sorted(result.errors.items()))
            names = groups.setdefault(errors, [])
            names.append(result.start.name)
    for errors, names in groups.items():
        starts = ", ".join(names)
        yield rules.UNANSWERED.finding(
            f"{len(errors)} of {len(lines)} requests were not answered in {starts}",
            evidence=_error_evidence(errors, requests_file, lines),
        )


def _error_evidence(
    errors: _Errors, requests_file: str, lines: Mapping[str, int | None]
) -> tuple[Evidence, ...]:
    """The first errors that differ, each at the line of its request."""
    evidence = []
    for request, text in distinct_errors(dict(errors), _SHOWN):
        item = Evidence(
            file=requests_file,
            line=lines.get(request),
            excerpt=f"{request}: {text}",
        )
        evidence.append(item)
    return tuple(evidence)


def distinct_errors(errors: Mapping[str, str], most: int) -> list[tuple[str, str]]:
    """At most `most` errors (request, text), no text twice."""
    first: dict[str, str] = {}
    for request, text in errors.items():
        if len(first) == most:
            break
        # A server that is down fails every request in the same words: one of them is enough.
        first.setdefault(text, request)
    return [(request, text) for text, request in first.items()]


def _throttled(results: Sequence[StartResult]) -> Iterator[Finding]:
    counts = []
    for result in results:
        if result.throttled:
            count = f"{result.throttled} in {result.start.name}"
            counts.append(count)
    if not counts:
        return
    starts = ", ".join(counts[:_SHOWN])
    more = len(counts) - _SHOWN
    if more > 0:
        starts += f" and {more} more starts"
    yield rules.THROTTLED.finding(
        f"requests were answered only after HTTP 429: {starts}",
        remedy=rules.THROTTLED.remedy,
    )


def _empty(results: Sequence[StartResult]) -> Iterator[Finding]:
    for result in results:
        start = result.start
        if start.empty:
            yield rules.EMPTY_ANSWERS.finding(
                f"{start.empty} answers of {start.name} hold no text",
                remedy=rules.EMPTY_ANSWERS.remedy,
            )
            return


def _killed(results: Sequence[StartResult]) -> Iterator[Finding]:
    killed = []
    for result in results:
        for name in result.killed:
            where = f"{name} in {result.start.name}"
            killed.append(where)
    if not killed:
        return
    count = f"{len(killed)} processes ignored SIGINT and SIGTERM and were killed"
    message = f"{count}, the first {killed[0]}"
    yield rules.KILLED.finding(message, remedy=rules.KILLED.remedy)
