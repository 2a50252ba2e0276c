# SPDX-License-Identifier: Apache-2.0
"""Pure. The verdict of each test, all that a run of `ci-doctor pytest` knows at its end, and what it lacks as evidence."""

from collections.abc import Collection, Iterator, Mapping, Sequence
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
from ci_doctor.pytest_runs.explanation import NO_TRIALS, Explanation, Tally
from ci_doctor.pytest_runs.quarantine import Quarantine
from ci_doctor.pytest_runs.records import StuckCollection
from ci_doctor.system.secrets.private_keys import first_words

# --- from the attempts of a test to its verdict ---

_IN_SUITE = frozenset({RunKind.SUITE, RunKind.REST})
_IN_ORDER = frozenset({*_IN_SUITE, RunKind.ORDER})
# What is said of a test that failed and passed is at most so likely for one that fails by chance.
CHANCE = 0.02


def chance_of(failures: int, passes: int) -> float:
    """How likely one test fails in `failures` given runs and passes in `passes` others, all by chance.

    The largest value of p^failures * (1 - p)^passes, that of p = failures / (failures + passes): so it
    holds for every failure rate.
    """
    runs = failures + passes
    if not failures or not passes:
        return 1.0
    return (failures / runs) ** failures * (passes / runs) ** passes


class TestJudgement(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What the attempts of `test` prove, in the report too. why: one clause. attempts: all of them, in their order.

    order_dependent: it passes alone, and fails each time after the tests before it, more often than chance
    explains. alike: tests that fail for the same reason, and ran again in its place. passes_at_base: None if it has no
    result there. is_new: the base does not have it. cause: the root cause in what it printed, in words.
    """

    __test__ = False  # no class of tests, whatever its name

    test: str
    verdict: Verdict
    why: str
    attempts: tuple[TestAttempt, ...]
    order_dependent: bool = False
    alike: tuple[str, ...] = ()
    passes_at_base: bool | None = None
    is_new: bool = False
    quarantined: bool = False
    cause: str | None = None
    explanation: Explanation | None = None

    @property
    def is_plain_pass(self) -> bool:
        """Whether it did nothing but pass once in the suite."""
        is_pass = self.verdict is Verdict.PASS and len(self.attempts) == 1
        return is_pass and _is_plain_pass(self.attempts[0])

    @property
    def last(self) -> TestAttempt | None:
        """The attempt that speaks for the test: the last in the suite, else the first of all."""
        if len(self.attempts) == 1:
            return self.attempts[0]
        attempts = _in(self.attempts, *_IN_SUITE) or self.attempts
        return attempts[-1] if attempts else None


def _is_plain_pass(attempt: TestAttempt) -> bool:
    """Whether it passed in the suite."""
    return attempt.run in _IN_SUITE and attempt.outcome is PytestOutcome.PASSED


class Circumstances(Struct, frozen=True, kw_only=True):
    """What is known of tests beside their attempts.

    causes: by node id, the root cause in what the test printed. outside: tests each of whose failures
    names a full disk, while the machine's disk is full. new: tests that the base does not have; new_runs: how often each of
    them was to run. not_run: tests that pytest stopped before, after a failure. repeated: node ids
    that several tests share. alike: by node id, tests that fail for the same reason, and ran again in its place. out_of_time: tests
    for whose runs no time was left. explained: by node id, what `--explain-flaky` showed.
    """

    causes: Mapping[str, str] = {}
    outside: Collection[str] = frozenset()
    new: Collection[str] = frozenset()
    new_runs: int = 1
    not_run: Collection[str] = frozenset()
    repeated: Collection[str] = frozenset()
    alike: Mapping[str, tuple[str, ...]] = {}
    out_of_time: Collection[str] = frozenset()
    explained: Mapping[str, Explanation] = {}


def judge_tests(
    sessions: Sequence[PytestSession], known: Circumstances
) -> tuple[TestJudgement, ...]:
    """A judgement of each test that was collected or tried in the suite, in that order."""
    # All attempts by node id; none for a test of the suite without a result.
    attempts: dict[str, list[TestAttempt]] = {}
    for session in sessions:
        if session.kind.is_of_suite:
            for name in session.collected or ():
                attempts.setdefault(name, [])
    for session in sessions:
        for attempt in session.attempts:
            if session.kind.is_of_suite or attempt.test in attempts:
                attempts.setdefault(attempt.test, []).append(attempt)
    return tuple(
        judge(name, tuple(tried), known)
        for name, tried in attempts.items()
        if name not in known.not_run or _in(tried, *_IN_SUITE)
    )


def judge(test: str, attempts: tuple[TestAttempt, ...], known: Circumstances) -> TestJudgement:
    """What these attempts prove of `test`."""
    if len(attempts) == 1 and test not in known.new and _is_plain_pass(attempts[0]):
        # By far the most of them.
        return TestJudgement(test=test, verdict=Verdict.PASS, why="passed", attempts=attempts)
    verdict, why, order_dependent = _verdict(test, attempts, known)
    # Whether it passed at the base each time; None if it was skipped there, or did not run.
    at_base = _in(attempts, RunKind.BASELINE)
    decided = [each for each in at_base if each.outcome is not PytestOutcome.SKIPPED]
    passes_at_base = all(each.has_passed for each in decided) if decided else None
    if verdict in {Verdict.FAILED, Verdict.INFRA} and passes_at_base:
        verdict, why = Verdict.REGRESSION, f"{why}; it passes at the base"
    return TestJudgement(
        test=test,
        verdict=verdict,
        why=why,
        attempts=attempts,
        order_dependent=order_dependent,
        alike=known.alike.get(test, ()),
        passes_at_base=passes_at_base,
        is_new=test in known.new,
        cause=known.causes.get(test),
        explanation=known.explained.get(test),
    )


def _verdict(
    test: str, attempts: Sequence[TestAttempt], known: Circumstances
) -> tuple[Verdict, str, bool]:
    suite = _in(attempts, *_IN_SUITE)
    if not suite:
        return Verdict.VOID, "it was collected, and has no result", False
    final = _final(suite, may_be_several=test in known.repeated)
    if all(attempt.is_green for attempt in final):
        verdict, why = _after_a_green_suite(test, attempts, known)
        return verdict, why, False
    in_order, alone = _in(attempts, *_IN_ORDER), _in(attempts, RunKind.ALONE)
    explanation = known.explained.get(test)
    trials = NO_TRIALS if explanation is None else explanation.alone
    passed = sum(each.has_passed for each in alone)
    failed = sum(not each.is_green for each in alone)
    # Under one condition, both endings: that is what flaky means.
    if passed + trials.passed and failed + trials.failed:
        return Verdict.FLAKY, _both_alone(alone, trials), False
    again = _in(attempts, RunKind.ORDER)
    is_mixed = test not in known.repeated and _is_mixed_in_a_process(suite)
    if is_mixed or any(attempt.has_passed for attempt in again):
        return Verdict.FLAKY, f"{_ended(in_order)} in the order of the suite", False
    if passed:
        is_proven = chance_of(len(again), passed) <= CHANCE
        why = f"{_ended(in_order)} in the order of the suite, and passed {passed} of {len(alone)} runs alone"
        return _in_its_order(test, in_order, why, known, is_proven=is_proven)
    verdict, why = _of_failures(test, (*in_order, *alone), known)
    return verdict, why, False


def _both_alone(alone: Sequence[TestAttempt], trials: Tally) -> str:
    if not trials.passed and not trials.failed:
        return f"{_ended(alone)} alone"
    failed = sum(each.has_failed for each in alone) + trials.failed
    done = len(alone) + trials.passed + trials.failed
    return f"failed {failed} of {done} runs alone, those of the explanation included"


def _is_mixed_in_a_process(suite: Sequence[TestAttempt]) -> bool:
    """Whether one process of the suite both passed and failed it, by a plugin that runs tests again."""
    passed = {each.pid for each in suite if each.has_passed and each.pid is not None}
    return any(each.has_failed and each.pid in passed for each in suite)


def _in_its_order(
    test: str, in_order: Sequence[TestAttempt], why: str, known: Circumstances, *, is_proven: bool
) -> tuple[Verdict, str, bool]:
    """It passed alone, and in its order never: whether that is more than chance."""
    if not any(each.has_failed for each in in_order):
        return Verdict.VOID, why, False
    explanation = known.explained.get(test)
    if explanation is not None and explanation.needs_order:
        return Verdict.FAILED, f"{why}; the explanation confirms that its order decides", True
    # Of an attempt without a result nobody knows what its order did.
    if is_proven and all(each.has_failed for each in in_order):
        return Verdict.FAILED, why, True
    if test in known.out_of_time:
        return Verdict.FAILED, f"{why}; the time for reruns was over", False
    return Verdict.FAILED, f"{why}, which may be chance", False


def _ended(attempts: Sequence[TestAttempt]) -> str:
    """`failed 1 of 2 runs`; with those without a result."""
    failed = sum(each.has_failed for each in attempts)
    lost = sum(each.outcome is PytestOutcome.LOST for each in attempts)
    text = f"failed {failed} of {len(attempts)} runs"
    return f"{text} ({lost} without a result)" if lost else text


def _in(attempts: Sequence[TestAttempt], *kinds: RunKind) -> tuple[TestAttempt, ...]:
    """The attempts in runs of these kinds."""
    return tuple(each for each in attempts if each.run in kinds)


def _final(suite: Sequence[TestAttempt], *, may_be_several: bool) -> tuple[TestAttempt, ...]:
    """The attempts in the suite that no plugin made good for by another one.

    Several may be final: `--dist=each` runs each test on each worker. In one process a further attempt
    is of the same test, unless several tests share the node id.
    """
    final = []
    for index, attempt in enumerate(suite):
        later = [each.pid for each in suite[index + 1 :]]
        is_replaced = bool(later) and attempt.pid is not None and attempt.pid in later
        if not later or not (attempt.was_retried or (is_replaced and not may_be_several)):
            final.append(attempt)
    return tuple(final)


def _after_a_green_suite(
    test: str, attempts: Sequence[TestAttempt], known: Circumstances
) -> tuple[Verdict, str]:
    suite, new = _in(attempts, *_IN_SUITE), _in(attempts, RunKind.NEW)
    if not all(each.is_green for each in new):
        return Verdict.FLAKY, f"a new test; {_ended((*suite, *new))}"
    if not all(each.is_green for each in _in(attempts, RunKind.ORDER)):
        return Verdict.FLAKY, f"{_ended(_in(attempts, *_IN_ORDER))} in the order of the suite"
    failures = sum(not attempt.is_green for attempt in suite)
    if failures:
        text = f"failed {failures} of {len(suite)} attempts in the suite, and passed the last one"
        return Verdict.FLAKY, text
    done = 1 + len(new)
    if test in known.new and done < known.new_runs:
        return Verdict.VOID, f"a new test; it has a result in {done} of {known.new_runs} runs"
    return Verdict.PASS, "passed"


def _of_failures(
    test: str, attempts: Sequence[TestAttempt], known: Circumstances
) -> tuple[Verdict, str]:
    """It never passed after it failed in the suite."""
    count = len(attempts)
    failed = sum(each.has_failed for each in attempts)
    lost = sum(each.outcome is PytestOutcome.LOST for each in attempts)
    if not failed:
        return Verdict.VOID, f"{_times(lost, count)} ended without a result"
    why = f"{_times(failed, count)} failed"
    if lost:
        why += f", {lost} ended without a result"
    cause = known.causes.get(test)
    if test in known.outside and cause is not None:
        return Verdict.INFRA, f"{why}, and the disk is full: {cause}"
    others = known.alike.get(test, ())
    if others:
        why += f"; it fails as {len(others)} others do, which ran again in its place"
    elif test in known.out_of_time:
        why += "; the time for reruns was over"
    return Verdict.FAILED, why


def _times(part: int, count: int) -> str:
    if count == 1:
        return "its attempt"
    return f"each of {count} attempts" if part == count else f"{part} of {count} attempts"


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
