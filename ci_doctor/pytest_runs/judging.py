# SPDX-License-Identifier: Apache-2.0
"""From the attempts of a test to its verdict. Pure."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from ci_doctor.model.outcome import Verdict
from ci_doctor.pytest_runs.attempt import PytestOutcome, PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.explanation import NO_TRIALS, Explanation, Tally

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
