# SPDX-License-Identifier: Apache-2.0
"""Pure. From a result to the outcome that is reported: its facts, its test cases."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ci_doctor.model.facts import Facts
from ci_doctor.model.outcome import (
    Attachment,
    Attempt,
    Case,
    CaseAttempt,
    CaseOutcome,
    ErrorKind,
    Failure,
    Outcome,
    Verdict,
    concluded,
    dotted,
    signal_kind,
)
from ci_doctor.pytest_runs.attempt import PytestOutcome, PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.findings import (
    SKIPPED,
    counts_of,
    findings_of,
    first_message,
    is_worth_telling,
    relative_log,
)
from ci_doctor.pytest_runs.judging import TestJudgement
from ci_doctor.pytest_runs.quarantine import group_and_name
from ci_doctor.pytest_runs.result import FLAKY_STATUS, PytestResult, fails_on_flaky, run_verdict
from ci_doctor.render.formatting import amount

# --- the facts of the report of a run, and from a result to them ---


class SessionFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process of pytest with its workers. kind: why it was started. how: how it ended."""

    kind: str
    how: str
    duration_s: float
    tests: int
    log: str | None = None
    seed: int | None = None
    hash_seed: str | None = None


class PytestFacts(Facts, frozen=True, kw_only=True):
    """counts: tests by verdict; `skipped` ones are counted apart. tests: those that did not simply pass.

    problems: why the run is no whole evidence. base: the commit of `--baseline`. received: the signal
    that ended the run. rerun_budget_s: the time for all reruns. not_rerun: failed tests for whose reruns
    it was not enough.
    """

    counts: dict[str, int]
    tests: tuple[TestJudgement, ...]
    sessions: tuple[SessionFacts, ...]
    python: str | None
    pytest: str | None
    interpreter: str
    plugins: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    base: str | None = None
    new_tests: tuple[str, ...] = ()
    received: str | None = None
    rerun_budget_s: float | None = None
    not_rerun: tuple[str, ...] = ()


def facts_of(result: PytestResult, directory: Path | None) -> PytestFacts:
    """The facts of `result`; logs by their place in the report directory, if there is one."""
    first = result.suite[0]
    return PytestFacts(
        counts=counts_of(result),
        tests=tuple(
            replace(
                judged,
                quarantined=judged.test in result.quarantine.held,
                attempts=tuple(
                    replace(each, log=relative_log(each.log, directory)) for each in judged.attempts
                ),
            )
            for judged in result.judged
            if is_worth_telling(judged)
        ),
        sessions=tuple(_session_facts(each, directory) for each in result.sessions),
        python=first.python,
        pytest=first.pytest,
        interpreter=str(result.python),
        plugins=first.plugins,
        problems=tuple(problem.text for problem in result.problems),
        base=result.base,
        new_tests=result.new,
        received=result.interrupted,
        rerun_budget_s=None if result.rerun_s is None else round(result.rerun_s, 3),
        not_rerun=result.out_of_time,
    )


def _session_facts(session: PytestSession, directory: Path | None) -> SessionFacts:
    return SessionFacts(
        kind=session.kind,
        how=session.how_it_ended,
        duration_s=round(session.duration_s, 3),
        tests=len(session.attempts),
        log=relative_log(session.log, directory),
        seed=session.seed,
        hash_seed=session.hash_seed,
    )


# --- from the judgement of a test to the test case of a report ---

# The types of pytest's own JUnit file.
_SKIPS = {PytestOutcome.SKIPPED: "pytest.skip", PytestOutcome.XFAILED: "pytest.xfail"}
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
    outcome, message = _CASE_OUTCOMES[judged.verdict], None
    kind: str | UnsetType = UNSET
    failed = next((each for each in judged.attempts if not each.is_green), None)
    detail = None if failed is None else failed.traceback or failed.message
    if judged.verdict is not Verdict.PASS:
        message = ": ".join(filter(None, [judged.why, first_message(judged)]))
        if outcome is CaseOutcome.FAILED and last and last.outcome is PytestOutcome.ERROR:
            outcome = CaseOutcome.ERROR
    elif last is not None and last.outcome in _SKIPS:
        outcome, message, kind = CaseOutcome.SKIPPED, last.message, _SKIPS[last.outcome]
        if detail is None and last.file is not None:
            detail = f"{last.file}:{last.line}: {message}"
    entry = result.quarantine.held.get(judged.test)
    if entry is not None and judged.verdict is not Verdict.PASS:
        outcome = CaseOutcome.SKIPPED
        message = f"quarantined until {entry.until} ({entry.owner}): {judged.why}"
    attempts: tuple[CaseAttempt, ...] = ()
    if len(judged.attempts) > 1 and is_worth_telling(judged):
        # One at the base is of other code.
        own = (each for each in judged.attempts if each.run is not RunKind.BASELINE)
        attempts = tuple(map(_case_attempt, own))
    return Case(
        group=group,
        name=name,
        outcome=outcome,
        message=message,
        detail=detail,
        duration_s=None if last is None else last.duration_s,
        attempts=attempts,
        kind=kind,
    )


def _collected_cases(result: PytestResult) -> Iterator[Case]:
    """The files that have no tests, as pytest's own JUnit file has them, before all tests."""
    errors = {name: text for each in result.suite for name, text in each.collect_errors.items()}
    skips = {name: text for each in result.suite for name, text in each.collect_skips.items()}
    for name, text in (errors | skips).items():
        is_error = name in errors
        group, own = group_and_name(name)
        yield Case(
            group=group,
            name=dotted(own),
            outcome=CaseOutcome.ERROR if is_error else CaseOutcome.SKIPPED,
            message="collection failure" if is_error else "collection skipped",
            detail=text,
        )


def _case_attempt(attempt: TestAttempt) -> CaseAttempt:
    lines = (attempt.message or "").strip().splitlines()
    return CaseAttempt(
        outcome=_outcome_of(attempt),
        message=f"{attempt.run}: {lines[0] if lines else attempt.outcome}",
        detail=attempt.traceback,
        duration_s=attempt.duration_s,
        started_at=attempt.started_at,
    )


def _outcome_of(attempt: TestAttempt) -> CaseOutcome:
    if attempt.outcome is PytestOutcome.SKIPPED:
        return CaseOutcome.SKIPPED
    if attempt.is_green:
        return CaseOutcome.PASSED
    if attempt.outcome is PytestOutcome.FAILED:
        return CaseOutcome.FAILED
    return CaseOutcome.ERROR


# --- from a result to the outcome that is reported ---

_MANY = frozenset({RunKind.ALONE, RunKind.NEW})


def outcome_of(result: PytestResult, working: Path, directory: Path | None) -> Outcome:
    """What `result` means. working: where the command runs. directory: of reports, if there is one."""
    findings = findings_of(result, working)
    facts = facts_of(result, directory)
    summary = _summary(result, facts.counts)
    verdict, summary = concluded(run_verdict(result), summary, findings)
    # As without ci-doctor: `--fail-on-flaky` of pytest-rerunfailures.
    is_seven = verdict is Verdict.FLAKY and fails_on_flaky(result.suite)
    # There may be a hundred others, which the facts hold.
    sessions = [each for each in result.sessions if each.kind not in _MANY]
    attachments = []
    for session in sessions:
        path = relative_log(session.log, directory)
        if path is not None:
            attachments.append(Attachment(path=path, title=f"the output of the run {session.kind}"))
    return Outcome(
        verdict=verdict,
        summary=summary,
        command_status=FLAKY_STATUS if is_seven else None,
        findings=findings,
        facts=facts,
        cases=(
            *_collected_cases(result),
            # One that never began has no case, as in pytest's own file.
            *(case_of(judged, result) for judged in result.judged if judged.attempts),
        ),
        attempts=tuple(_session_attempt(each, directory) for each in sessions),
        attachments=tuple(attachments),
    )


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
