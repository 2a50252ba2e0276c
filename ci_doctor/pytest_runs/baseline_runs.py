# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: which tests are new, and how failed tests end at the base."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.pytest_runs.attempt import PytestSession, RunKind
from ci_doctor.pytest_runs.baseline import BaseCheckout, base_problem, collect_plan
from ci_doctor.pytest_runs.judging import TestJudgement
from ci_doctor.pytest_runs.plan import PytestPlan
from ci_doctor.pytest_runs.process import PytestRunner
from ci_doctor.pytest_runs.reruns import SuiteFailure


class NewTests(Struct, frozen=True, kw_only=True):
    """The tests that the base does not have, or why they are not known."""

    names: tuple[str, ...] = ()
    problem: str | None = None


def find_new_tests(
    runner: PytestRunner, plan: PytestPlan, checkout: BaseCheckout, first: PytestSession
) -> NewTests:
    """What the suite collected, without what is collected at the base. first: of the suite."""
    session = runner.run(collect_plan(checkout.plan(plan, first.path)))
    # That files of the change were loaded matters to results, not to names.
    problem = base_problem(replace(session, loaded=()))
    if problem is not None:
        return NewTests(problem=problem)
    known = set(session.collected or ())
    return NewTests(names=tuple(name for name in first.collected or () if name not in known))


def all_new_tests(sources: Sequence[NewTests]) -> NewTests:
    """What at least one of `sources` calls new; a problem if none of them knows. Pure."""
    known = [source for source in sources if source.problem is None]
    if not known:
        return NewTests(problem="; ".join(source.problem or "" for source in sources))
    return NewTests(names=tuple(dict.fromkeys(name for each in known for name in each.names)))


def run_new_tests(
    runner: PytestRunner,
    plan: PytestPlan,
    names: Sequence[str],
    *,
    times: int,
    tell: Callable[[str], None],
) -> tuple[PytestSession, ...]:
    """The new tests `times` times more, each time in a new process."""
    sessions: list[PytestSession] = []
    again = replace(plan, kind=RunKind.NEW, tests=tuple(names), only_their_files=True)
    for number in range(1, times + 1):
        if runner.is_interrupted:
            break
        tell(f"running {len(names)} new tests again, {number} of {times}")
        sessions.append(runner.run(again))
    return tuple(sessions)


def run_at_base(
    runner: PytestRunner,
    plan: PytestPlan,
    failed: Sequence[TestJudgement],
    failures: Sequence[SuiteFailure],
) -> tuple[PytestSession, ...]:
    """The failed tests by `plan`, which is of the base: together, those that depend on their order in that order."""
    before = {failure.test: failure.before for failure in failures}
    alone = tuple(each.test for each in failed if not each.order_dependent)
    sessions: list[PytestSession] = []
    if alone:
        sessions.append(runner.run(replace(plan, tests=alone, only_their_files=False)))
    for judged in failed:
        if judged.order_dependent and not runner.is_interrupted:
            order = (*before.get(judged.test, ()), judged.test)
            session = runner.run(replace(plan, tests=order))
            sessions.append(_about(session, judged.test))
    return tuple(sessions)


def _about(session: PytestSession, test: str) -> PytestSession:
    """`session` with the attempts of `test` alone: the others only prepare it. Pure."""
    return replace(session, attempts=session.attempts_of(test))
