# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs all tests, and after a crash those that it kept from running."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from ci_doctor.pytest_runs.attempt import PytestSession, RunKind, missing_tests
from ci_doctor.pytest_runs.plan import PytestPlan
from ci_doctor.pytest_runs.process import PytestRunner
from ci_doctor.pytest_runs.whole import narrowed_by, not_run_tests

# Processes after the first one. A suite that crashes more often is broken.
MOST_RESTS: Final = 20


def run_suite(runner: PytestRunner, plan: PytestPlan) -> tuple[PytestSession, ...]:
    """The run of all tests by `plan`, and after each crash one of the tests not yet tried."""
    return run_all(runner, plan, [])


def run_all(
    runner: PytestRunner, plan: PytestPlan, before: Sequence[PytestSession]
) -> tuple[PytestSession, ...]:
    """The run by `plan` after those `before` it, and after each crash one of the tests not yet tried."""
    sessions = [*before, runner.run(plan, is_shown=True)]
    while len(sessions) <= MOST_RESTS and not runner.is_interrupted:
        rest = rest_after(sessions)
        if not rest:
            break
        further = replace(plan, kind=RunKind.REST, tests=rest, without=())
        sessions.append(runner.run(further, is_shown=True))
    return tuple(sessions[len(before) :])


def further_plan(plan: PytestPlan, sessions: Sequence[PytestSession]) -> PytestPlan | None:
    """The run of what a failure kept from running that turned out to be none; None if nothing is left.

    Pure. Without the options that stop at a failure, or that leave out what passed before.
    """
    if len(sessions) > MOST_RESTS:
        return None
    rest = replace(plan, kind=RunKind.REST)
    if narrowed_by(sessions) is not None:
        tried = dict.fromkeys(each.test for session in sessions for each in session.attempts)
        return replace(rest, without=tuple(tried))
    missing = not_run_tests(sessions)
    return replace(rest, tests=missing) if missing else None


def rest_after(sessions: list[PytestSession]) -> tuple[str, ...]:
    """The tests that a crash of the last session kept from running; empty if none is to be run.

    Pure. A session that ended in order ran all that it was to run. One that tried no test would crash
    again before its first.
    """
    last = sessions[-1]
    if last.finished is not None or not last.attempts:
        return ()
    if last.maxfail and _failures(sessions) >= sessions[0].maxfail:
        return ()
    return missing_tests(sessions)


def _failures(sessions: list[PytestSession]) -> int:
    failures = 0
    for session in sessions:
        failures += sum(not attempt.is_green for attempt in session.attempts)
    return failures
