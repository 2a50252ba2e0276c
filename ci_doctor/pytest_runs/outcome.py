# SPDX-License-Identifier: Apache-2.0
"""From a result to the outcome that is reported. Pure."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.model.outcome import (
    Attachment,
    Attempt,
    ErrorKind,
    Failure,
    Outcome,
    concluded,
    signal_kind,
)
from ci_doctor.model.verdict import Verdict
from ci_doctor.pytest_runs.attempt import PytestSession, RunKind
from ci_doctor.pytest_runs.cases import case_of
from ci_doctor.pytest_runs.facts import facts_of
from ci_doctor.pytest_runs.findings import findings_of
from ci_doctor.pytest_runs.result import PytestResult, run_verdict
from ci_doctor.pytest_runs.telling import SKIPPED, relative_log
from ci_doctor.pytest_runs.whole import FLAKY_STATUS
from ci_doctor.render.formatting import amount

_MANY = frozenset({RunKind.ALONE, RunKind.NEW})


def outcome_of(result: PytestResult, working: Path, directory: Path | None) -> Outcome:
    """What `result` means. working: where the command runs. directory: of reports, if there is one."""
    findings = findings_of(result, working)
    facts = facts_of(result, directory)
    summary = _summary(result, facts.counts)
    verdict, summary = concluded(run_verdict(result), summary, findings)
    # As without ci-doctor: `--fail-on-flaky` of pytest-rerunfailures.
    is_seven = result.fails_on_flaky and verdict is Verdict.FLAKY
    return Outcome(
        verdict=verdict,
        summary=summary,
        command_status=FLAKY_STATUS if is_seven else None,
        findings=findings,
        facts=facts,
        cases=tuple(case_of(judged, result) for judged in result.judged),
        attempts=tuple(_session_attempt(each, directory) for each in _shown(result)),
        attachments=_attachments(_shown(result), directory),
    )


def _shown(result: PytestResult) -> tuple[PytestSession, ...]:
    """The sessions that a person reads of; there may be a hundred others, which the facts hold."""
    return tuple(each for each in result.sessions if each.kind not in _MANY)


def refused_outcome() -> Outcome:
    """The outcome if pytest refused its command line: it has said why itself."""
    message = "pytest refused its command line"
    error = Failure(message=message, hint="pytest says why above", kind=ErrorKind.USAGE)
    return Outcome(verdict=None, summary=message, error=error)


def answered_outcome(question: str, session: PytestSession) -> Outcome:
    """The outcome if pytest was asked for no test: no verdict, and the status of pytest."""
    summary = f"{question}: pytest ran no test, and ended with {session.how_it_ended}"
    code = session.exit_code
    if code is None:
        # A signal ended it: a crash of what it loads is the change's own, as far as anybody knows.
        error = Failure(message=summary, kind=ErrorKind.PREPARATION)
        return Outcome(verdict=None, summary=summary, error=error)
    return Outcome(verdict=None, summary=summary, command_status=code)


def interrupted_outcome(outcome: Outcome, name: str) -> Outcome:
    """`outcome` after a signal to ci-doctor: what is known so far, and no verdict."""
    message = f"interrupted by {name}; {outcome.summary} before that"
    error = Failure(message=message, kind=signal_kind(name))
    return replace(outcome, verdict=None, summary=message, error=error)


def _summary(result: PytestResult, counts: Mapping[str, int]) -> str:
    """`2 failed, 1 flaky, 120 passed`; the reason if nothing ran."""
    parts = []
    for name in ("regression", "failed", "void", "infra", "flaky", "quarantined"):
        count = counts.get(name, 0)
        if count:
            parts.append(_counted(count, name))
    if counts.get("pass"):
        parts.append(f"{counts['pass']} passed")
    if counts.get(SKIPPED):
        parts.append(f"{counts[SKIPPED]} skipped")
    if result.not_run:
        parts.append(f"{result.not_run} not run")
    text = ", ".join(parts) or "no test ran"
    if result.problems:
        text = f"{text}; {result.problems[0].text}"
    return text


def _counted(count: int, name: str) -> str:
    if name == Verdict.REGRESSION:
        return amount(count, name)
    if name == Verdict.VOID:
        return f"{count} without a result"
    return f"{count} {name}"


def _session_attempt(session: PytestSession, directory: Path | None) -> Attempt:
    return Attempt(
        name=session.kind,
        outcome=session.how_it_ended,
        ok=session.has_ended_in_order and session.exit_code == 0,
        duration_s=round(session.duration_s, 3),
        log=relative_log(session.log, directory),
    )


def _attachments(
    sessions: Sequence[PytestSession], directory: Path | None
) -> tuple[Attachment, ...]:
    attachments = []
    for session in sessions:
        path = relative_log(session.log, directory)
        if path is not None:
            attachments.append(Attachment(path=path, title=f"the output of the run {session.kind}"))
    return tuple(attachments)
