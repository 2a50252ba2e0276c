# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs failed tests again, alone and in the order in which they failed, and at the base of a change."""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.errors import PreparationError, UsageError
from ci_doctor.git import missing_commit_hint, run_git
from ci_doctor.pytest_runs.attempt import PytestOutcome, PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.plan import PytestPlan, with_options
from ci_doctor.pytest_runs.process import PytestRunner
from ci_doctor.pytest_runs.result import CHANCE, TestJudgement, chance_of
from ci_doctor.system import clock

# Failed tests. So many are no flakes: the change is broken, or the machine.
MOST_RERUN: Final = 50
# So many that fail alike are one failure; so many of them run again.
MANY: Final = 5
IN_THEIR_PLACE: Final = 3
# After the suite and a run alone, in the order of Thue and Morse: strict turns would keep step with a
# test that fails every second time. Three failures in the order and three passes alone: by chance in
# 1 of 64 cases at most.
_TURNS: Final = (RunKind.ALONE, RunKind.ORDER, RunKind.ALONE, RunKind.ORDER, RunKind.ORDER)
_MOST_ALONE: Final = 1 + _TURNS.count(RunKind.ALONE)
# Reruns take no longer than the suite so many times, but may take this long.
OF_THE_SUITE: Final = 2.0
LEAST_TIME_S: Final = 60.0
_NUMBERS: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")
_WITH_A_REASON: Final = frozenset({PytestOutcome.FAILED, PytestOutcome.ERROR})


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


def has_passed(session: PytestSession, test: str) -> bool:
    """Whether `test` ran in `session`, and each attempt of it passed. Pure."""
    attempts = session.attempts_of(test)
    return bool(attempts) and all(attempt.has_passed for attempt in attempts)


class Reruns:
    """Runs failed tests again, within `time_s` from the first: alone, and those that pass there in their order too.

    plan: for runs of chosen tests. reruns: of one test alone, at most, until it passes. `alike` names
    for each test that was spared the tests that ran in its place; `out_of_time` those for which no time
    was left.
    """

    def __init__(
        self,
        runner: PytestRunner,
        plan: PytestPlan,
        time_s: float,
        *,
        reruns: int,
        tell: Callable[[str], None],
    ) -> None:
        self.sessions: list[PytestSession] = []
        self.alike: dict[str, tuple[str, ...]] = {}
        self.out_of_time: dict[str, None] = {}
        self._runner = runner
        self._plan = plan
        self._time_s = time_s
        self._end: float | None = None
        self._reruns = reruns
        self._tell = tell

    def run(self, failures: Sequence[SuiteFailure]) -> None:
        """Run them again, and say before that how long it takes at most."""
        if not failures or not self._reruns:
            return
        left_s = max(0.0, self._left_s())
        count = "1 failed test" if len(failures) == 1 else f"{len(failures)} failed tests"
        self._tell(f"running {count} again, for at most {left_s:.0f} s in all (--rerun-budget)")
        chosen, spared = representatives(failures)
        self._alone(chosen)
        # Where one of them passes, the failures have not one cause that each run meets.
        again = []
        for failure in failures:
            others = spared.get(failure.test, ())
            ran = tuple(other for other in others if self._attempts(other, RunKind.ALONE))
            if any(self._passes(other) for other in ran):
                again.append(failure)
            elif ran:
                self.alike[failure.test] = ran
            elif others:
                self.out_of_time[failure.test] = None
        self._alone(again)
        self._in_order([each for each in failures if self._is_open(each.test)])

    def _left_s(self) -> float:
        if self._end is None:
            self._end = clock.now() + self._time_s
        return self._end - clock.now()

    def _passes(self, test: str) -> bool:
        return any(
            has_passed(session, test) for session in self.sessions if session.kind is RunKind.ALONE
        )

    def _is_open(self, test: str) -> bool:
        """Whether it passed alone each time, and never in its order so far."""
        alone = self._attempts(test, RunKind.ALONE)
        in_order = self._attempts(test, RunKind.ORDER)
        is_mixed = any(not each.is_green for each in alone)
        passed = sum(each.has_passed for each in alone)
        if is_mixed or not passed or any(each.has_passed for each in in_order):
            return False
        return chance_of(len(in_order), passed) > CHANCE

    def _attempts(self, test: str, kind: RunKind) -> list[TestAttempt]:
        return [
            each
            for session in self.sessions
            if session.kind is kind
            for each in session.attempts_of(test)
        ]

    def _alone(self, failures: Sequence[SuiteFailure]) -> None:
        """Each alone until it passes: each once before the first one twice, as the time may be over."""
        left = list(failures)
        for number in range(1, self._reruns + 1):
            for failure in left:
                self._once_alone(failure.test, f"{number} of at most {self._reruns}")
            left = [failure for failure in left if not self._passes(failure.test)]

    def _once_alone(self, test: str, which: str) -> None:
        # Nothing else is collected than its file.
        plan = replace(self._plan, kind=RunKind.ALONE, tests=(test,), only_their_files=True)
        self._one(plan, [test], f"running {test} alone, {which}")

    def _in_order(self, failures: Sequence[SuiteFailure]) -> None:
        """Each in its order and alone, in `_TURNS`, until chance is excluded or it is flaky."""
        left = list(failures)
        for place, kind in enumerate(_TURNS):
            if kind is RunKind.ALONE:
                number = 2 + _TURNS[:place].count(kind)
                for failure in left:
                    self._once_alone(failure.test, f"{number} of at most {_MOST_ALONE}")
            else:
                self._orders(left)
            left = [failure for failure in left if self._is_open(failure.test)]

    def _orders(self, failures: Sequence[SuiteFailure]) -> None:
        for order in orders_to_repeat(failures):
            tests = [each.test for each in failures if each.test in order]
            text = f"running the {len(order)} tests up to {order[-1]} again, in their order"
            if len(order) == 1:
                text = f"running {order[0]} again, with all files collected"
            self._one(replace(self._plan, kind=RunKind.ORDER, tests=order), tests, text)

    def _one(self, plan: PytestPlan, about: Sequence[str], text: str) -> None:
        """One run about these tests, if there is time for it."""
        if self._runner.is_interrupted:
            return
        left_s = self._left_s()
        if left_s > 0:
            self._tell(text)
            session = self._runner.run(replace(plan, limit_s=left_s))
            self.sessions.append(session)
            if not session.is_cut:
                return
        self.out_of_time.update(dict.fromkeys(about))


def representatives(
    failures: Sequence[SuiteFailure],
) -> tuple[list[SuiteFailure], dict[str, tuple[str, ...]]]:
    """The failures that are run again, and of the others the tests that run in their place. Pure.

    Many tests that fail alike have one cause as a rule: a few of them show whether it is always there.
    """
    groups: dict[str, list[SuiteFailure]] = {}
    for failure in failures:
        reason = failure_reason(failure.attempt)
        if reason is not None:
            groups.setdefault(reason, []).append(failure)
    spared: dict[str, tuple[str, ...]] = {}
    for group in groups.values():
        if len(group) >= MANY:
            places = [len(group) * number // IN_THEIR_PLACE for number in range(IN_THEIR_PLACE)]
            names = tuple(group[place].test for place in places)
            spared.update({each.test: names for each in group if each.test not in names})
    return [each for each in failures if each.test not in spared], spared


def failure_reason(attempt: TestAttempt) -> str | None:
    """What tests that fail for one reason have in common; None if nothing is known. Pure.

    It is the line of the error with its numbers left out. An assertion is at one place, too: two tests
    may compare other things in the same words.
    """
    marked = [line for line in (attempt.traceback or "").splitlines() if line.startswith("E  ")]
    lines = (attempt.message or "").strip().splitlines() or [line[1:].strip() for line in marked]
    if not lines or attempt.outcome not in _WITH_A_REASON:
        return None
    text = _NUMBERS.sub("#", lines[0])
    if text.startswith(("assert", "AssertionError")):
        return f"{attempt.file}:{attempt.line}: {text}"
    return text


def orders_to_repeat(failures: Sequence[SuiteFailure]) -> tuple[tuple[str, ...], ...]:
    """The orders to be run once more for these failures: one for each process of the suite. Pure.

    An order ends with a failed test. One that begins with the same tests and is longer serves both. A
    test that was the first is run with all files collected, since one of them may break it.
    """
    orders: list[tuple[str, ...]] = []
    longest_first = sorted(failures, key=lambda failure: -len(failure.before))
    for failure in longest_first:
        if not failure.is_order_known:
            continue
        order = (*failure.before, failure.test)
        if not any(other[: len(order)] == order for other in orders):
            orders.append(order)
    return tuple(orders)


# --- the base of a change in a worktree of git, and runs of tests there ---

_CHECKOUT_LIMIT_S = 600.0


class BaseCommit(Struct, frozen=True, kw_only=True):
    """The commit that a change is compared with. top: the checkout of the change."""

    commit: str
    top: Path


class BaseCheckout(Struct, frozen=True, kw_only=True):
    """The base, checked out at `root`."""

    base: BaseCommit
    root: Path

    def plan(self, plan: PytestPlan, path: Sequence[str]) -> PytestPlan:
        """`plan` at the base. path: `sys.path` of the tests of the change. Pure.

        What lies in the checkout of the change is replaced by its place at the base: the working
        directory, arguments, and folders on `sys.path`, such as those of packages that are installed in
        editable form.
        """
        top = str(self.base.top)
        own = [self._moved(entry) for entry in path if _is_own(entry, top)]
        environ = dict(plan.environ)
        before = environ.pop("PYTHONPATH", "").split(os.pathsep)
        entries = dict.fromkeys([*own, *(self._moved(entry) for entry in before if entry)])
        if entries:
            environ["PYTHONPATH"] = os.pathsep.join(entries)
        return replace(
            plan,
            kind=RunKind.BASELINE,
            args=tuple(self._moved_word(word) for word in plan.args),
            environ=environ,
            directory=Path(self._moved(str(plan.directory))),
            watched=self.base.top,
        )

    def _moved(self, place: str) -> str:
        """`place` at the base if it lies in the checkout of the change."""
        top = str(self.base.top)
        if place == top or place.startswith(f"{top}/"):
            return f"{self.root}{place[len(top) :]}"
        return place

    def _moved_word(self, word: str) -> str:
        """The same for an argument, also behind `--option=`."""
        name, equals, value = word.partition("=")
        if equals and name.startswith("-"):
            return f"{name}={self._moved(value)}"
        return self._moved(word)


def _is_own(entry: str, top: str) -> bool:
    """Whether a folder of `sys.path` belongs to the change; an environment in it does not."""
    inside = entry == top or entry.startswith(f"{top}/")
    return inside and "site-packages" not in entry and "/lib/python" not in entry


def base_commit(directory: Path, reference: str) -> BaseCommit:
    """The commit at which the change in `directory` left `reference`: their merge base.

    That is `reference` itself if the change was made on top of it, or if the two share no history.
    Raises UsageError if there is no such commit, or no repository.
    """
    top = run_git(directory, ["rev-parse", "--show-toplevel"])
    if top.returncode:
        raise UsageError(
            f"--baseline {reference}: {directory} is in no git repository",
            hint="run ci-doctor in the checkout of the change",
        )
    commit = run_git(directory, ["rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}"])
    if commit.returncode:
        raise UsageError(
            f"--baseline {reference}: git knows no such commit",
            hint=missing_commit_hint(directory, reference),
        )
    name = commit.stdout.strip()
    fork = run_git(directory, ["merge-base", "HEAD", name])
    if not fork.returncode:
        name = fork.stdout.strip()
    return BaseCommit(commit=name, top=Path(top.stdout.rstrip("\n")))


@contextlib.contextmanager
def base_checkout(base: BaseCommit, folder: Path) -> Iterator[BaseCheckout]:
    """The base in a new worktree in `folder`, removed afterwards. Raises PreparationError if git fails."""
    root = folder / "base"
    words = ["worktree", "add", "--detach", "--quiet", str(root), base.commit]
    made = run_git(base.top, words, timeout_s=_CHECKOUT_LIMIT_S)
    if made.returncode:
        raise PreparationError(
            f"cannot check out the base {base.commit[:12]}: {made.stderr.strip()}",
            hint="leave --baseline out to judge without it",
        )
    try:
        yield BaseCheckout(base=base, root=root)
    finally:
        run_git(base.top, ["worktree", "remove", "--force", str(root)])


def base_problem(session: PytestSession) -> str | None:
    """Why a session at the base shows nothing; None if it does. Pure."""
    if session.loaded:
        return f"its tests loaded files of the change, such as {session.loaded[0]}"
    if session.collect_errors:
        return f"{next(iter(session.collect_errors))} cannot be collected there"
    if session.stuck is not None:
        limit_s = session.stuck.limit_s
        return f"{session.stuck.name} was being collected there for longer than {limit_s:g} s"
    if session.collected is None:
        return f"pytest ended before it had collected the tests there: {session.how_it_ended}"
    return None


# --- which tests are new, and how failed tests end at the base ---


def find_new_tests(
    runner: PytestRunner, plan: PytestPlan, checkout: BaseCheckout, first: PytestSession
) -> tuple[str, ...] | str:
    """What the suite collected, without what is collected at the base, or why that is not known.

    first: of the suite.
    """
    there = checkout.plan(plan, first.path)
    # No test: only what is collected is asked for.
    there = replace(there, args=with_options(there.args, "--collect-only", "-q"))
    session = runner.run(there)
    # That files of the change were loaded matters to results, not to names.
    problem = base_problem(replace(session, loaded=()))
    if problem is not None:
        return problem
    known = set(session.collected or ())
    return tuple(name for name in first.collected or () if name not in known)


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
            # The others only prepare it.
            sessions.append(replace(session, attempts=session.attempts_of(judged.test)))
    return tuple(sessions)
