# SPDX-License-Identifier: Apache-2.0
"""Pure. The files of pytest-json-report and pytest-reportlog -> attempts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ci_doctor.history.evidence import (
    AttemptEvidence,
    AttemptOutcome,
    JobEvidence,
    ParsedEvidence,
)
from ci_doctor.history.reading.failure_cause import cause_of_message
from ci_doctor.history.reading.moments import epoch_ms, milliseconds
from ci_doctor.model.junit_identity import junit_identity

_PHASES: Final = ("setup", "call", "teardown")
_OUTCOMES: Final = {
    "passed": AttemptOutcome.PASSED,
    "xfailed": AttemptOutcome.SKIPPED,
    "xpassed": AttemptOutcome.PASSED,
    "failed": AttemptOutcome.FAILED,
    "error": AttemptOutcome.ERROR,
    "skipped": AttemptOutcome.SKIPPED,
    "rerun": AttemptOutcome.FAILED,
}
_RED: Final = frozenset({AttemptOutcome.FAILED, AttemptOutcome.ERROR})


def is_json_report(raw: Any) -> bool:
    """Whether decoded JSON is a file of pytest-json-report."""
    return isinstance(raw, dict) and "exitcode" in raw and isinstance(raw.get("summary"), dict)


def read_json_report(raw: Mapping[str, Any]) -> ParsedEvidence:
    """The attempts of a file of pytest-json-report (numirias/pytest-json-report, its README)."""
    created = epoch_ms(raw.get("created"))
    length = milliseconds(raw.get("duration"))
    began = None if created is None else created - (length or 0)
    counts: dict[tuple[str, str], int] = {}
    attempts = []
    for test in raw.get("tests") or ():
        outcome = _OUTCOMES.get(test.get("outcome"))
        if outcome is None:
            continue
        phases = [
            {**test[phase], "when": phase} for phase in _PHASES if isinstance(test.get(phase), dict)
        ]
        node_id = str(test.get("nodeid", ""))
        if test["outcome"] == "rerun":
            # It keeps the phases of the last run alone, and not how many there were.
            attempts.append(_attempt(node_id, AttemptOutcome.FAILED, [], began, counts))
            outcome = _outcome(phases)
        attempts.append(_attempt(node_id, outcome, phases, began, counts))
    job = JobEvidence(started_ms=began, duration_ms=length)
    return ParsedEvidence(form="pytest-json-report", job=job, attempts=tuple(attempts))


def read_report_log(lines: Iterable[Mapping[str, Any]]) -> ParsedEvidence:
    """The attempts of the decoded lines of pytest-reportlog (pytest-dev/pytest-reportlog).

    An attempt is the reports of setup, call and teardown up to the teardown's.
    """
    counts: dict[tuple[str, str], int] = {}
    attempts = []
    for node_id, phases in _executions(lines):
        outcome = _outcome(phases)
        start = epoch_ms(phases[0].get("start"))
        attempts.append(_attempt(node_id, outcome, phases, start, counts))
    starts = [each.started_ms for each in attempts if each.started_ms is not None]
    job = JobEvidence(started_ms=min(starts, default=None))
    return ParsedEvidence(form="pytest-reportlog", job=job, attempts=tuple(attempts))


def _executions(
    lines: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    # By test: under pytest-xdist the reports of several workers are mixed.
    running: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        if line.get("$report_type") != "TestReport":
            continue
        node_id = str(line.get("nodeid", ""))
        running.setdefault(node_id, []).append(line)
        if line.get("when") == "teardown":
            yield node_id, running.pop(node_id)
    # A worker that died leaves no teardown: what it began is an attempt all the same.
    yield from running.items()


def _outcome(phases: Sequence[Mapping[str, Any]]) -> AttemptOutcome:
    for phase in phases:
        outcome = phase.get("outcome")
        if outcome == "rerun" or (outcome == "failed" and phase.get("when") == "call"):
            return AttemptOutcome.FAILED
        if outcome == "failed":
            return AttemptOutcome.ERROR
        if outcome == "skipped":
            return AttemptOutcome.SKIPPED
    if not phases or phases[-1].get("when") != "teardown":
        return AttemptOutcome.ERROR
    return AttemptOutcome.PASSED


def _attempt(
    node_id: str,
    outcome: AttemptOutcome,
    phases: Sequence[Mapping[str, Any]],
    started_ms: int | None,
    counts: dict[tuple[str, str], int],
) -> AttemptEvidence:
    suite, name = junit_identity(node_id)
    number = counts.get((suite, name), 0) + 1
    counts[suite, name] = number
    durations = [phase.get("duration") for phase in phases]
    total = sum(each for each in durations if isinstance(each, int | float))
    message = _message(phases) if outcome in _RED else ""
    return AttemptEvidence(
        suite=suite,
        name=name,
        outcome=outcome,
        number=number,
        started_ms=started_ms,
        duration_ms=milliseconds(total) if phases else None,
        cause=cause_of_message(message),
    )


def _message(phases: Sequence[Mapping[str, Any]]) -> str:
    for phase in phases:
        crash = phase.get("crash")
        long = phase.get("longrepr")
        if crash is None and isinstance(long, dict):
            crash = long.get("reprcrash")
        if isinstance(crash, dict) and isinstance(crash.get("message"), str):
            return str(crash["message"])
        if isinstance(long, str) and long.strip():
            return long.strip().splitlines()[-1]
    return ""
