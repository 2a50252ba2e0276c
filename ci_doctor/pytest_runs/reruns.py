# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs failed tests again, alone and in the order in which they failed."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.pytest_runs.attempt import PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.plan import PytestPlan, rerun_args
from ci_doctor.pytest_runs.process import PytestRunner

# Failed tests. So many are no flakes: the change is broken, or the machine.
MOST_RERUN: Final = 50


class SuiteFailure(Struct, frozen=True, kw_only=True):
    """A test whose last attempt in the suite failed. before: the tests of its process before it."""

    attempt: TestAttempt
    before: tuple[str, ...]
    is_order_known: bool

    @property
    def test(self) -> str:
        """Its node id."""
        return self.attempt.test


def suite_failures(sessions: Sequence[PytestSession]) -> tuple[SuiteFailure, ...]:
    """The tests that did not pass in the suite, in the order in which they failed. Pure."""
    failures: dict[str, SuiteFailure] = {}
    for session in sessions:
        for attempt in session.attempts:
            failures.pop(attempt.test, None)
            if not attempt.is_green:
                failures[attempt.test] = _failure(session, attempt)
    return tuple(failures.values())


def retried_failures(sessions: Sequence[PytestSession]) -> tuple[SuiteFailure, ...]:
    """The tests that failed in the suite and passed when a plugin ran them again. Pure."""
    retried: dict[str, SuiteFailure] = {}
    failed: dict[str, SuiteFailure] = {}
    for session in sessions:
        for attempt in session.attempts:
            if not attempt.is_green:
                failed.setdefault(attempt.test, _failure(session, attempt))
            elif attempt.test in failed:
                retried[attempt.test] = failed[attempt.test]
    return tuple(retried.values())


def _failure(session: PytestSession, attempt: TestAttempt) -> SuiteFailure:
    order = session.order.get(attempt.pid or -1, ())
    if attempt.test not in order:
        return SuiteFailure(attempt=attempt, before=(), is_order_known=False)
    before = order[: order.index(attempt.test)]
    return SuiteFailure(attempt=attempt, before=before, is_order_known=True)


def rerun_alone(
    runner: PytestRunner,
    plan: PytestPlan,
    failures: Sequence[SuiteFailure],
    *,
    reruns: int,
    tell: Callable[[str], None],
) -> tuple[PytestSession, ...]:
    """Each failed test alone in a new process, until it passes, `reruns` times at most."""
    sessions: list[PytestSession] = []
    for failure in failures:
        for number in range(1, reruns + 1):
            if runner.is_interrupted:
                return tuple(sessions)
            tell(f"running {failure.test} alone, {number} of at most {reruns}")
            session = runner.run(alone_plan(plan, failure.test))
            sessions.append(session)
            if has_passed(session, failure.test):
                break
    return tuple(sessions)


def alone_plan(plan: PytestPlan, *tests: str) -> PytestPlan:
    """These tests in one new process, with nothing else collected than their files. Pure."""
    return replace(plan, kind=RunKind.ALONE, tests=tests, only_their_files=True)


def has_passed(session: PytestSession, test: str) -> bool:
    """Whether `test` ran in `session`, and each attempt of it was green. Pure."""
    attempts = session.attempts_of(test)
    return bool(attempts) and all(attempt.is_green for attempt in attempts)


def passed_alone(
    failures: Sequence[SuiteFailure], alone: Sequence[PytestSession]
) -> list[SuiteFailure]:
    """Those of `failures` that passed in a run alone. Pure."""
    return [
        failure
        for failure in failures
        if any(has_passed(session, failure.test) for session in alone)
    ]


def orders_to_repeat(failures: Sequence[SuiteFailure]) -> tuple[tuple[str, ...], ...]:
    """The orders to be run once more for these failures: one for each process of the suite. Pure.

    An order ends with a failed test. One that begins with the same tests and is longer serves both.
    """
    orders: list[tuple[str, ...]] = []
    longest_first = sorted(failures, key=lambda failure: -len(failure.before))
    for failure in longest_first:
        if not failure.before:
            continue
        order = (*failure.before, failure.test)
        if not any(other[: len(order)] == order for other in orders):
            orders.append(order)
    return tuple(orders)


def repeat_orders(
    runner: PytestRunner,
    plan: PytestPlan,
    orders: Sequence[tuple[str, ...]],
    tell: Callable[[str], None],
) -> tuple[PytestSession, ...]:
    """Each order in a new process of its own."""
    sessions = []
    for order in orders:
        if runner.is_interrupted:
            break
        tell(f"running the {len(order)} tests up to {order[-1]} again, in their order")
        sessions.append(runner.run(replace(plan, kind=RunKind.ORDER, tests=order)))
    return tuple(sessions)


def rerun_plan(plan: PytestPlan, first: PytestSession) -> PytestPlan:
    """`plan` for runs of chosen tests: one process, none of the reports of the suite. Pure."""
    return replace(plan, args=rerun_args(plan.args, first.plugins))
