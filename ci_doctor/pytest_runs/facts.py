# SPDX-License-Identifier: Apache-2.0
"""From a result to the facts of its report. Pure."""

from pathlib import Path

from ci_doctor.model.facts.pytest import AttemptFacts, PytestFacts, SessionFacts, TestFacts
from ci_doctor.pytest_runs.attempt import PytestSession
from ci_doctor.pytest_runs.judging import RunAttempt, TestJudgement
from ci_doctor.pytest_runs.result import PytestResult
from ci_doctor.pytest_runs.telling import counts_of, is_worth_telling, relative_log, timestamp_of


def facts_of(result: PytestResult, directory: Path | None) -> PytestFacts:
    """The facts of `result`; logs by their place in the report directory, if there is one."""
    first = result.suite[0]
    return PytestFacts(
        counts=counts_of(result),
        tests=tuple(
            _test_facts(judged, result, directory)
            for judged in result.judged
            if is_worth_telling(judged)
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
        rerun_budget_s=None if result.rerun_s is None else round(result.rerun_s, 3),
        not_rerun=result.out_of_time,
    )


def _test_facts(judged: TestJudgement, result: PytestResult, directory: Path | None) -> TestFacts:
    explanations = {each.test: each.facts for each in result.explained}
    return TestFacts(
        test=judged.test,
        verdict=judged.verdict,
        why=judged.why,
        attempts=tuple(_attempt_facts(run, directory) for run in judged.runs),
        order_dependent=judged.order_dependent,
        alike=judged.alike,
        passes_at_base=judged.passes_at_base,
        is_new=judged.is_new,
        quarantined=judged.test in result.quarantined,
        cause=judged.cause,
        explanation=explanations.get(judged.test),
    )


def _attempt_facts(run: RunAttempt, directory: Path | None) -> AttemptFacts:
    attempt = run.attempt
    return AttemptFacts(
        run=run.kind,
        outcome=attempt.outcome,
        duration_s=attempt.duration_s,
        started_at=timestamp_of(attempt.started_at),
        index=attempt.index,
        worker=attempt.worker,
        seed=run.seed,
        hash_seed=run.hash_seed,
        message=attempt.message,
        file=attempt.file,
        line=attempt.line,
        traceback=attempt.traceback,
        output=attempt.output,
        log=relative_log(run.log, directory),
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
