# SPDX-License-Identifier: Apache-2.0
"""Pure. All that a run of `ci-doctor pytest` knows at its end, and what it lacks as evidence."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.model.outcome import Verdict
from ci_doctor.pytest_runs.attempt import (
    PytestOutcome,
    PytestSession,
    RunKind,
    TestAttempt,
    collected_tests,
    missing_tests,
)
from ci_doctor.pytest_runs.explanation import Explanation
from ci_doctor.pytest_runs.judging import TestJudgement
from ci_doctor.pytest_runs.quarantine import Quarantine
from ci_doctor.pytest_runs.records import StuckCollection
from ci_doctor.system.secrets.private_keys import first_words

# --- what the runs of pytest lack as evidence, whatever their tests say ---

_INTERRUPTED = 2
_USAGE = 4
_NOTHING_COLLECTED = 5
FLAKY_STATUS = 7  # of pytest-rerunfailures
_FAILED_TESTS = 1
_STACK = 1500  # characters; the innermost call is the first
_NAMED = 5  # tests without a result that a sentence names
# Options by which pytest answers a question and runs no test.
_QUESTIONS = frozenset(
    {
        "--co",
        "--collect-only",
        "--collectonly",
        "--fixtures",
        "--fixtures-per-test",
        "--funcargs",
        "--help",
        "-h",
        "--markers",
        "--setup-only",
        "--setup-plan",
        "--setuponly",
        "--setupplan",
        "--version",
        "-V",
    }
)


class RunProblem(Struct, frozen=True, kw_only=True):
    """A reason why the suite cannot be green. is_failure: it is a failure; else evidence is missing."""

    text: str
    detail: str = ""
    is_failure: bool = False


def is_usage_error(session: PytestSession) -> bool:
    """Whether pytest refused its command line, before any test."""
    return session.exit_code == _USAGE and not session.attempts


def question_of(args: Sequence[str], session: PytestSession) -> str | None:
    """The option in `args` for which pytest ran no test; None if it was to run tests, or ran one."""
    called = any(when == "call" for each in session.attempts for when, _, _ in each.phases)
    if called:
        return None
    for word in args:
        if word == "--":
            break
        if word in _QUESTIONS:
            return word
    return None


def run_problems(suite: Sequence[PytestSession], *, is_red: bool = False) -> tuple[RunProblem, ...]:
    """What is wrong with the suite as a whole: its processes after each other.

    is_red: a test that decides has failed for good, so that tests behind it need no result.
    """
    return tuple(_problems(suite, is_red=is_red))


def _problems(suite: Sequence[PytestSession], *, is_red: bool) -> Iterator[RunProblem]:
    first = suite[0]
    for session in suite:
        yield from _of_session(session)
    if not any(session.collected for session in suite):
        if first.stuck is None:
            yield RunProblem(text=_why_nothing(first), detail=first.last_lines)
        return
    if missing_tests(suite) and not (is_red and not_run_tests(suite)):
        yield _missing(suite)
    narrowed = narrowed_by(suite)
    if narrowed is not None and not is_red:
        yield RunProblem(text=f"{narrowed} left tests out, which did not run")
    for session in suite:
        yield from _unexplained_end(session, has_missing=bool(missing_tests(suite)))


def narrowed_by(suite: Sequence[PytestSession]) -> str | None:
    """The option by which an earlier run's failures left tests out; None if they were run after all."""
    if any(each.narrowed is None and not each.chosen for each in suite):
        return None
    return suite[0].narrowed


def ends_early(session: PytestSession) -> bool:
    """Whether `-x`, `--maxfail` or `--sw` stopped it after a failure, and no plugin of its own accord."""
    failed = sum(not each.is_green and not each.was_retried for each in session.attempts)
    return bool(failed) and (session.is_stepwise or 0 < session.maxfail <= failed)


def fails_on_flaky(suite: Sequence[PytestSession]) -> bool:
    """Whether pytest-rerunfailures ended pytest with 7, because it ran a test again."""
    return any(_is_seven_of_rerunfailures(session) for session in suite)


def _is_seven_of_rerunfailures(session: PytestSession) -> bool:
    reran = any(outcome == "rerun" for each in session.attempts for _, outcome, _ in each.phases)
    names = {name.lower().replace("_", "-") for name in session.plugins}
    is_there = "pytest-rerunfailures" in names
    return session.exit_code == FLAKY_STATUS and session.is_changed and reran and is_there


def _of_session(session: PytestSession) -> Iterator[RunProblem]:
    for name, text in session.collect_errors.items():
        yield RunProblem(text=f"{name or 'the suite'} cannot be collected", detail=text)
    for text in session.internal_errors:
        yield RunProblem(text="pytest itself failed (internal error)", detail=text)
    if session.stuck is not None:
        yield _of_stuck(session.stuck)
    if session.damaged:
        yield RunProblem(text=f"{session.damaged} lines of the record are damaged")
    if session.other_failures:
        yield RunProblem(
            text="a plugin counts a failure that is no test's, such as a coverage too small",
            is_failure=True,
        )


def _of_stuck(stuck: StuckCollection) -> RunProblem:
    return RunProblem(
        text=f"{stuck.name} was being collected for longer than {stuck.limit_s:g} s; "
        "ci-doctor ended pytest",
        detail=first_words(stuck.stack, _STACK),
    )


def _why_nothing(first: PytestSession) -> str:
    if first.exit_code == _NOTHING_COLLECTED:
        return "pytest collected no test, or all were deselected (`-k`, `-m`, a plugin)"
    return f"pytest ended before it had collected the tests: {first.how_it_ended}"


def not_run_tests(suite: Sequence[PytestSession]) -> tuple[str, ...]:
    """The tests that have no result because `-x`, `--maxfail` or `--sw` stopped pytest after a failure."""
    if not any(ends_early(session) for session in suite):
        return ()
    return missing_tests(suite)


def _missing(suite: Sequence[PytestSession]) -> RunProblem:
    missing = missing_tests(suite)
    names = list(missing[:_NAMED])
    if len(missing) > _NAMED:
        names.append(f"and {len(missing) - _NAMED} more")
    of_all = collected_tests(suite).total()
    text = f"{len(missing)} of {of_all} collected tests have no result{_why_missing(suite[-1])}"
    return RunProblem(text=text, detail="\n".join(names))


def _why_missing(last: PytestSession) -> str:
    if last.interrupted is not None:
        return f"; {last.interrupted} interrupted the run"
    if last.stopped:
        return f"; pytest stopped: {last.stopped}"
    if last.collect_errors:
        return "; pytest runs none if it cannot collect all"
    if last.exit_code == _INTERRUPTED:
        return "; pytest was interrupted"
    return ""


# Outcomes of a test that its process did not outlive.
_WITH_ITS_PROCESS = frozenset({PytestOutcome.CRASHED, PytestOutcome.TIMEOUT, PytestOutcome.LOST})


def _unexplained_end(session: PytestSession, *, has_missing: bool) -> Iterator[RunProblem]:
    """An end of a process that its tests do not explain. A test that failed explains status 1 alone."""
    if session.stuck is not None:
        return
    text = None
    if session.finished is None:
        if not any(_died_in(attempt) for attempt in session.attempts):
            text = f"pytest ended without a result: {session.how_it_ended}"
    elif session.finished != session.exit_code:
        text = (
            f"pytest announced exit code {session.finished}, and its process ended with "
            f"{session.how_it_ended}"
        )
    elif not _is_explained(session, has_missing=has_missing):
        text = f"pytest ended with exit code {session.exit_code}, which no test explains"
        if session.is_changed:
            text += "; a plugin set it"
    if text is not None:
        yield RunProblem(text=text, detail=session.last_lines, is_failure=True)


def _died_in(attempt: TestAttempt) -> bool:
    """Whether its process ended in this attempt."""
    is_over = any(when != "crash" for when, _, _ in attempt.phases)
    return attempt.outcome in _WITH_ITS_PROCESS and not is_over


def _is_explained(session: PytestSession, *, has_missing: bool) -> bool:
    """Whether its tests, or a problem that is named already, explain the status of pytest."""
    code = session.exit_code
    if code == 0 or _is_seven_of_rerunfailures(session):
        return True
    if session.is_changed:
        return False
    if session.collect_errors or session.internal_errors or session.other_failures:
        return True
    if code == _FAILED_TESTS:
        return any(not each.is_green and not each.was_retried for each in session.attempts)
    if code == _INTERRUPTED:
        # A stop by `shouldstop`, Ctrl-C and pytest-xdist end so.
        is_lost = any(each.outcome is PytestOutcome.LOST for each in session.attempts)
        return ends_early(session) or has_missing or is_lost or session.interrupted is not None
    # Nothing was left for it.
    return code == _NOTHING_COLLECTED and session.kind is RunKind.REST and not session.attempts


# --- all that a run of `ci-doctor pytest` knows at its end ---


def is_skipped(judged: TestJudgement) -> bool:
    """Whether the test was skipped."""
    last = judged.last
    return (
        judged.verdict is Verdict.PASS
        and last is not None
        and last.outcome is PytestOutcome.SKIPPED
    )


class PytestResult(Struct, frozen=True, kw_only=True):
    """sessions: in the order in which they ran. judged: each test, by the order of the suite.

    quarantine: the entries for these tests. too_many: so many tests failed that none was run again. base: the commit
    of `--baseline`. base_problem: a sentence if it shows nothing. not_run: tests that
    pytest stopped before, after a failure. interrupted: the signal to ci-doctor. explained: by node id, why tests are flaky.
    rerun_s: the time for reruns. out_of_time: tests for whose reruns it was not enough.
    """

    python: Path
    args: tuple[str, ...]
    sessions: tuple[PytestSession, ...]
    judged: tuple[TestJudgement, ...]
    problems: tuple[RunProblem, ...]
    quarantine: Quarantine = Quarantine()
    too_many: bool = False
    base: str | None = None
    base_problem: str | None = None
    new: tuple[str, ...] = ()
    not_run: int = 0
    interrupted: str | None = None
    explained: dict[str, Explanation] = {}
    rerun_s: float | None = None
    out_of_time: tuple[str, ...] = ()

    @property
    def suite(self) -> tuple[PytestSession, ...]:
        """The sessions of all tests."""
        return tuple(each for each in self.sessions if each.kind.is_of_suite)

    @property
    def shows_nothing(self) -> bool:
        """Whether there were tests, and each of them was skipped, or failed in quarantine."""
        return bool(self.judged) and all(
            is_skipped(each)
            or (each.test in self.quarantine.held and each.verdict is not Verdict.PASS)
            for each in self.judged
        )

    @property
    def deciding(self) -> tuple[TestJudgement, ...]:
        """The tests that decide: those in quarantine do not."""
        if not self.quarantine.held:
            return self.judged
        return tuple(each for each in self.judged if each.test not in self.quarantine.held)

    def with_verdict(self, *verdicts: Verdict) -> tuple[TestJudgement, ...]:
        """The deciding tests with one of these verdicts."""
        return tuple(each for each in self.deciding if each.verdict in verdicts)


def run_verdict(result: PytestResult) -> Verdict:
    """The verdict of the whole: the most urgent one of its tests, and of the run itself.

    A failure stands above missing evidence, and that above a cause outside the change: 75 is retried,
    and a retry must hide neither.
    """
    verdicts = {each.verdict for each in result.deciding}
    if any(problem.is_failure for problem in result.problems):
        verdicts.add(Verdict.FAILED)
    if any(not problem.is_failure for problem in result.problems):
        verdicts.add(Verdict.VOID)
    for verdict in (Verdict.REGRESSION, Verdict.FAILED, Verdict.VOID, Verdict.INFRA, Verdict.FLAKY):
        if verdict in verdicts:
            return verdict
    return Verdict.VOID if result.shows_nothing else Verdict.PASS
