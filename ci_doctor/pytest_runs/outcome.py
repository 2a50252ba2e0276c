# SPDX-License-Identifier: Apache-2.0
"""From a result to the outcome that is reported. Pure."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.model.facts.pytest import AttemptFacts, PytestFacts, SessionFacts, TestFacts
from ci_doctor.model.outcome import (
    Attachment,
    Attempt,
    Case,
    CaseAttempt,
    CaseOutcome,
    ErrorKind,
    Failure,
    Outcome,
    concluded,
    signal_kind,
)
from ci_doctor.model.verdict import Verdict
from ci_doctor.pytest_runs.attempt import AttemptOutcome, PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.findings import findings_of
from ci_doctor.pytest_runs.judging import RunAttempt, TestJudgement
from ci_doctor.pytest_runs.naming import group_and_name
from ci_doctor.pytest_runs.result import PytestResult, run_verdict

_SKIPPED = "skipped"
_CASE_OUTCOMES = {
    Verdict.PASS: CaseOutcome.PASSED,
    Verdict.FLAKY: CaseOutcome.PASSED,
    Verdict.FAILED: CaseOutcome.FAILED,
    Verdict.REGRESSION: CaseOutcome.FAILED,
    Verdict.INFRA: CaseOutcome.ERROR,
    Verdict.VOID: CaseOutcome.ERROR,
}


def outcome_of(result: PytestResult, working: Path, directory: Path | None) -> Outcome:
    """What `result` means. working: where the command runs. directory: of reports, if there is one."""
    findings = findings_of(result, working)
    verdict, summary = concluded(run_verdict(result), _summary(result), findings)
    return Outcome(
        verdict=verdict,
        summary=summary,
        findings=findings,
        facts=_facts(result, directory),
        cases=tuple(_case(judged, result) for judged in result.judged),
        attempts=tuple(_session_attempt(each, directory) for each in result.sessions),
        attachments=_attachments(result.sessions, directory),
    )


def refused_outcome() -> Outcome:
    """The outcome if pytest refused its command line: it has said why itself."""
    message = "pytest refused its command line"
    error = Failure(message=message, hint="pytest says why above", kind=ErrorKind.USAGE)
    return Outcome(verdict=None, summary=message, error=error)


def interrupted_outcome(outcome: Outcome, name: str) -> Outcome:
    """`outcome` after a signal to ci-doctor: what is known so far, and no verdict."""
    message = f"interrupted by {name}; {outcome.summary} before that"
    error = Failure(message=message, kind=signal_kind(name))
    return replace(outcome, verdict=None, summary=message, error=error)


def _summary(result: PytestResult) -> str:
    """`2 failed, 1 flaky, 120 passed`; the reason if nothing ran."""
    counts = counts_of(result)
    parts = []
    for name in ("regression", "failed", "void", "infra", "flaky", "quarantined"):
        if counts.get(name):
            words = {"void": "without a result", "regression": "regressions"}.get(name, name)
            parts.append(f"{counts[name]} {words}")
    if counts.get("pass"):
        parts.append(f"{counts['pass']} passed")
    if counts.get(_SKIPPED):
        parts.append(f"{counts[_SKIPPED]} skipped")
    if result.not_run:
        parts.append(f"{result.not_run} not run")
    text = ", ".join(parts) or "no test ran"
    if result.problems:
        text = f"{text}; {result.problems[0].text}"
    return text


def counts_of(result: PytestResult) -> dict[str, int]:
    """Tests by verdict; skipped and quarantined ones apart."""
    counts: dict[str, int] = {}
    for judged in result.judged:
        key = str(judged.verdict)
        if judged.test in result.quarantined and judged.verdict is not Verdict.PASS:
            key = "quarantined"
        elif _is_skipped(judged):
            key = _SKIPPED
        counts[key] = counts.get(key, 0) + 1
    return counts


def _is_skipped(judged: TestJudgement) -> bool:
    last = judged.last
    return (
        judged.verdict is Verdict.PASS
        and last is not None
        and last.outcome is AttemptOutcome.SKIPPED
    )


def _facts(result: PytestResult, directory: Path | None) -> PytestFacts:
    first = result.suite[0]
    return PytestFacts(
        counts=counts_of(result),
        tests=tuple(
            _test_facts(judged, result, directory)
            for judged in result.judged
            if _is_worth_telling(judged)
        ),
        sessions=tuple(_session_facts(each, directory) for each in result.sessions),
        python=first.python,
        pytest=first.pytest,
        interpreter=str(result.python),
        plugins=first.plugins,
        problems=tuple(problem.text for problem in result.problems),
        base=None if result.base is None else result.base.commit,
        new_tests=result.new,
        received=result.interrupted,
    )


def _is_worth_telling(judged: TestJudgement) -> bool:
    """Whether it did more than pass, in the suite and before another test in an order."""
    if judged.verdict is not Verdict.PASS:
        return True
    return any(not run.attempt.is_green or run.kind is RunKind.NEW for run in judged.runs)


def _test_facts(judged: TestJudgement, result: PytestResult, directory: Path | None) -> TestFacts:
    return TestFacts(
        test=judged.test,
        verdict=judged.verdict,
        why=judged.why,
        attempts=tuple(_attempt_facts(run, directory) for run in judged.runs),
        order_dependent=judged.order_dependent,
        passes_at_base=judged.passes_at_base,
        is_new=judged.is_new,
        quarantined=judged.test in result.quarantined,
        cause=judged.cause,
    )


def _attempt_facts(run: RunAttempt, directory: Path | None) -> AttemptFacts:
    attempt = run.attempt
    return AttemptFacts(
        run=run.kind,
        outcome=attempt.outcome,
        duration_s=attempt.duration_s,
        started_at=_timestamp(attempt.started_at),
        index=attempt.index,
        worker=attempt.worker,
        seed=run.seed,
        hash_seed=run.hash_seed,
        message=attempt.message,
        file=attempt.file,
        line=attempt.line,
        traceback=attempt.traceback,
        output=attempt.output,
        log=_relative(run.log, directory),
    )


def _session_facts(session: PytestSession, directory: Path | None) -> SessionFacts:
    return SessionFacts(
        kind=session.kind,
        how=session.how_it_ended,
        duration_s=round(session.duration_s, 3),
        tests=len(session.attempts),
        log=_relative(session.log, directory),
        seed=session.seed,
        hash_seed=session.hash_seed,
    )


def _session_attempt(session: PytestSession, directory: Path | None) -> Attempt:
    return Attempt(
        name=_session_name(session),
        outcome=session.how_it_ended,
        ok=session.has_ended_in_order and session.exit_code == 0,
        duration_s=round(session.duration_s, 3),
        log=_relative(session.log, directory),
    )


def _session_name(session: PytestSession) -> str:
    if session.kind is RunKind.ALONE and len(session.chosen) == 1:
        return f"{session.kind} {session.chosen[0]}"
    return str(session.kind)


def _relative(log: str | None, directory: Path | None) -> str | None:
    """The path of a log in the report directory; None if it was not kept."""
    if log is None or directory is None:
        return None
    return os.path.relpath(log, directory)


def _attachments(
    sessions: Sequence[PytestSession], directory: Path | None
) -> tuple[Attachment, ...]:
    attachments = []
    for session in sessions:
        path = _relative(session.log, directory)
        if path is not None:
            attachments.append(
                Attachment(path=path, title=f"what `{_session_name(session)}` wrote")
            )
    return tuple(attachments)


def _case(judged: TestJudgement, result: PytestResult) -> Case:
    group, name = group_and_name(judged.test)
    last = judged.last
    outcome = _CASE_OUTCOMES[judged.verdict]
    message = None if judged.verdict is Verdict.PASS else judged.why
    if _is_skipped(judged):
        outcome, message = CaseOutcome.SKIPPED, last.message if last else None
    entry = result.quarantined.get(judged.test)
    if entry is not None and judged.verdict is not Verdict.PASS:
        outcome = CaseOutcome.SKIPPED
        message = f"quarantined until {entry.until} ({entry.owner}): {judged.why}"
    attempts: tuple[CaseAttempt, ...] = ()
    if len(judged.runs) > 1 and _is_worth_telling(judged):
        attempts = tuple(_case_attempt(run) for run in judged.runs if _counts(run))
    return Case(
        group=group,
        name=name,
        outcome=outcome,
        message=message,
        detail=_detail(judged),
        duration_s=None if last is None else last.duration_s,
        attempts=attempts,
    )


def _counts(run: RunAttempt) -> bool:
    """Whether it is an execution of this code: one at the base is of other code."""
    return run.kind is not RunKind.BASELINE


def _detail(judged: TestJudgement) -> str | None:
    for run in judged.runs:
        if not run.attempt.is_green:
            return run.attempt.traceback or run.attempt.message
    return None


def _case_attempt(run: RunAttempt) -> CaseAttempt:
    attempt = run.attempt
    return CaseAttempt(
        outcome=_outcome_of(attempt),
        message=f"{run.kind}: {_first_line(attempt.message) or attempt.outcome}",
        detail=attempt.traceback,
        duration_s=attempt.duration_s,
        started_at=_timestamp(attempt.started_at),
    )


def _outcome_of(attempt: TestAttempt) -> CaseOutcome:
    if attempt.outcome is AttemptOutcome.SKIPPED:
        return CaseOutcome.SKIPPED
    if attempt.is_green:
        return CaseOutcome.PASSED
    if attempt.outcome is AttemptOutcome.FAILED:
        return CaseOutcome.FAILED
    return CaseOutcome.ERROR


def _first_line(text: str | None) -> str:
    lines = (text or "").strip().splitlines()
    return lines[0] if lines else ""


def _timestamp(epoch_s: float | None) -> str | None:
    if epoch_s is None:
        return None
    moment = datetime.fromtimestamp(epoch_s, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
