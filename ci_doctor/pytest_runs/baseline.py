# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: runs of tests at the base of a change, in a worktree of git."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.errors import PreparationError, UsageError
from ci_doctor.git import missing_commit_hint, run_git
from ci_doctor.pytest_runs.attempt import PytestSession, RunKind
from ci_doctor.pytest_runs.judging import TestJudgement
from ci_doctor.pytest_runs.plan import PytestPlan, with_options
from ci_doctor.pytest_runs.process import PytestRunner
from ci_doctor.pytest_runs.reruns import SuiteFailure

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
