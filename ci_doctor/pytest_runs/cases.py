# SPDX-License-Identifier: Apache-2.0
"""From the judgement of a test to the test case of a report. Pure."""

from ci_doctor.model.outcome import Case, CaseAttempt, CaseOutcome
from ci_doctor.model.verdict import Verdict
from ci_doctor.pytest_runs.attempt import PytestOutcome, RunKind, TestAttempt
from ci_doctor.pytest_runs.judging import RunAttempt, TestJudgement
from ci_doctor.pytest_runs.naming import group_and_name
from ci_doctor.pytest_runs.result import PytestResult
from ci_doctor.pytest_runs.telling import is_skipped, is_worth_telling, timestamp_of

_CASE_OUTCOMES = {
    Verdict.PASS: CaseOutcome.PASSED,
    Verdict.FLAKY: CaseOutcome.PASSED,
    Verdict.FAILED: CaseOutcome.FAILED,
    Verdict.REGRESSION: CaseOutcome.FAILED,
    Verdict.INFRA: CaseOutcome.ERROR,
    Verdict.VOID: CaseOutcome.ERROR,
}


def case_of(judged: TestJudgement, result: PytestResult) -> Case:
    """The case of one test, with all of its attempts if there were several."""
    group, name = group_and_name(judged.test)
    last = judged.last
    if judged.is_plain_pass and last is not None:
        # By far the most of them.
        return Case(group=group, name=name, outcome=CaseOutcome.PASSED, duration_s=last.duration_s)
    outcome = _CASE_OUTCOMES[judged.verdict]
    message = None if judged.verdict is Verdict.PASS else judged.why
    if is_skipped(judged):
        outcome, message = CaseOutcome.SKIPPED, last.message if last else None
    entry = result.quarantined.get(judged.test)
    if entry is not None and judged.verdict is not Verdict.PASS:
        outcome = CaseOutcome.SKIPPED
        message = f"quarantined until {entry.until} ({entry.owner}): {judged.why}"
    attempts: tuple[CaseAttempt, ...] = ()
    if len(judged.runs) > 1 and is_worth_telling(judged):
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
        started_at=timestamp_of(attempt.started_at),
    )


def _outcome_of(attempt: TestAttempt) -> CaseOutcome:
    if attempt.outcome is PytestOutcome.SKIPPED:
        return CaseOutcome.SKIPPED
    if attempt.is_green:
        return CaseOutcome.PASSED
    if attempt.outcome is PytestOutcome.FAILED:
        return CaseOutcome.FAILED
    return CaseOutcome.ERROR


def _first_line(text: str | None) -> str:
    lines = (text or "").strip().splitlines()
    return lines[0] if lines else ""
