# SPDX-License-Identifier: Apache-2.0
"""From the attempts of a test to its verdict. Pure."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from ci_doctor.model.verdict import Verdict
from ci_doctor.pytest_runs.attempt import PytestOutcome, PytestSession, RunKind, TestAttempt

_IN_SUITE = frozenset({RunKind.SUITE, RunKind.REST})
# Outcomes of a phase by which a plugin announces that it runs the test again.
_RETRIED = frozenset({"rerun", "retried"})


class RunAttempt(Struct, frozen=True, kw_only=True, gc=False):
    """An attempt, why it was made, and with which seeds."""

    kind: RunKind
    attempt: TestAttempt
    seed: int | None = None
    hash_seed: str | None = None
    log: str | None = None

    @property
    def is_plain_pass(self) -> bool:
        """Whether it passed in the suite."""
        return self.kind in _IN_SUITE and self.attempt.outcome is PytestOutcome.PASSED


class TestJudgement(Struct, frozen=True, kw_only=True, gc=False):
    """What the attempts of `test` prove. why: one clause. runs: all of its attempts, in their order.

    order_dependent: it passes alone, and fails each time after the tests before it. passes_at_base:
    None if it was not run there. is_new: the base does not have it. cause: the root cause in what it
    printed, in words. past: what the history shows of it, as a clause.
    """

    __test__ = False  # no class of tests, whatever its name

    test: str
    verdict: Verdict
    why: str
    runs: tuple[RunAttempt, ...]
    order_dependent: bool = False
    passes_at_base: bool | None = None
    is_new: bool = False
    cause: str | None = None
    past: str | None = None

    @property
    def is_plain_pass(self) -> bool:
        """Whether it did nothing but pass once in the suite."""
        is_pass = self.verdict is Verdict.PASS and len(self.runs) == 1
        return is_pass and self.runs[0].is_plain_pass

    def of(self, *kinds: RunKind) -> tuple[TestAttempt, ...]:
        """The attempts in runs of these kinds."""
        return tuple(run.attempt for run in self.runs if run.kind in kinds)

    @property
    def last(self) -> TestAttempt | None:
        """The attempt that speaks for the test: the last in the suite, else the first of all."""
        if len(self.runs) == 1:
            return self.runs[0].attempt
        attempts = self.of(*_IN_SUITE) or self.of(*RunKind)
        return attempts[-1] if attempts else None


class Circumstances(Struct, frozen=True, kw_only=True):
    """What is known of tests beside their attempts.

    causes: by node id, the root cause in what the test printed. outside: tests each of whose failures
    names a full disk, while the machine's disk is full. new: tests that the base does not have; new_runs: how often each of
    them was to run. first: tests that were the first of their process in the suite. not_run: tests that
    pytest stopped before, after a failure.
    """

    causes: Mapping[str, str] = {}
    outside: Collection[str] = frozenset()
    new: Collection[str] = frozenset()
    new_runs: int = 1
    first: Collection[str] = frozenset()
    not_run: Collection[str] = frozenset()


def judge_tests(
    sessions: Sequence[PytestSession], known: Circumstances
) -> tuple[TestJudgement, ...]:
    """A judgement of each test that was collected or tried in the suite, in that order."""
    judged = []
    for name, runs in _runs_by_test(sessions).items():
        was_tried = any(run.kind.is_of_suite for run in runs)
        if was_tried or name not in known.not_run:
            judged.append(judge(name, tuple(runs), known))
    return tuple(judged)


def _runs_by_test(sessions: Sequence[PytestSession]) -> dict[str, list[RunAttempt]]:
    """By node id, all attempts; none for a test of the suite without a result."""
    runs: dict[str, list[RunAttempt]] = {}
    for session in sessions:
        if session.kind.is_of_suite:
            for name in session.collected or ():
                runs.setdefault(name, [])
    for session in sessions:
        is_of_suite = session.kind.is_of_suite
        for attempt in session.attempts:
            if is_of_suite or attempt.test in runs:
                runs.setdefault(attempt.test, []).append(_run_attempt(session, attempt))
    return runs


def _run_attempt(session: PytestSession, attempt: TestAttempt) -> RunAttempt:
    return RunAttempt(
        kind=session.kind,
        attempt=attempt,
        seed=session.seed,
        hash_seed=session.hash_seed,
        log=session.log,
    )


def judge(test: str, runs: tuple[RunAttempt, ...], known: Circumstances) -> TestJudgement:
    """What these runs prove of `test`."""
    if len(runs) == 1 and test not in known.new and runs[0].is_plain_pass:
        # By far the most of them.
        return TestJudgement(test=test, verdict=Verdict.PASS, why="passed", runs=runs)
    verdict, why, order_dependent = _verdict(test, runs, known)
    base = _attempts(runs, RunKind.BASELINE)
    passes_at_base = _all_green(base) if base else None
    if verdict in {Verdict.FAILED, Verdict.INFRA} and passes_at_base:
        verdict, why = Verdict.REGRESSION, f"{why}; it passes at the base"
    return TestJudgement(
        test=test,
        verdict=verdict,
        why=why,
        runs=runs,
        order_dependent=order_dependent,
        passes_at_base=passes_at_base,
        is_new=test in known.new,
        cause=known.causes.get(test),
    )


def _verdict(
    test: str, runs: Sequence[RunAttempt], known: Circumstances
) -> tuple[Verdict, str, bool]:
    suite = _attempts(runs, *_IN_SUITE)
    if not suite:
        return Verdict.VOID, "it was collected, and has no result", False
    final = _final(suite)
    if all(attempt.is_green for attempt in final):
        verdict, why = _after_a_green_suite(
            suite, _attempts(runs, RunKind.NEW), _attempts(runs, RunKind.ORDER)
        )
        done = 1 + len(_attempts(runs, RunKind.NEW))
        if verdict is Verdict.PASS and test in known.new and done < known.new_runs:
            why = f"a new test; it has a result in {done} of {known.new_runs} runs"
            return Verdict.VOID, why, False
        return verdict, why, False
    alone = _attempts(runs, RunKind.ALONE)
    if any(attempt.is_green for attempt in alone):
        return _after_a_pass_alone(test, runs, known)
    again = _attempts(runs, RunKind.ORDER)
    if any(attempt.is_green for attempt in again):
        return Verdict.FLAKY, "failed, and passed when the same order ran again", False
    verdict, why = _of_failures(test, (*suite, *alone, *again), known)
    return verdict, why, False


def _attempts(runs: Sequence[RunAttempt], *kinds: RunKind) -> tuple[TestAttempt, ...]:
    return tuple(run.attempt for run in runs if run.kind in kinds)


def _final(suite: Sequence[TestAttempt]) -> tuple[TestAttempt, ...]:
    """The attempts in the suite that no plugin made good for by another one.

    Several may be final: `--dist=each` runs each test on each worker.
    """
    final = []
    for index, attempt in enumerate(suite):
        is_last = index == len(suite) - 1
        was_retried = any(outcome in _RETRIED for _, outcome, _ in attempt.phases)
        if is_last or not was_retried:
            final.append(attempt)
    return tuple(final)


def _all_green(attempts: Sequence[TestAttempt]) -> bool:
    return all(attempt.is_green for attempt in attempts)


def _after_a_green_suite(
    suite: Sequence[TestAttempt], new: Sequence[TestAttempt], again: Sequence[TestAttempt]
) -> tuple[Verdict, str]:
    failures = sum(not attempt.is_green for attempt in (*suite, *new))
    runs = len(suite) + len(new)
    if not _all_green(new):
        return Verdict.FLAKY, f"a new test; failed {failures} of {runs} runs"
    if not _all_green(again):
        return Verdict.FLAKY, "passed, and failed when the tests before it ran again in their order"
    if failures:
        return (
            Verdict.FLAKY,
            f"failed {failures} of {runs} attempts in one process, and then passed",
        )
    return Verdict.PASS, "passed"


def _after_a_pass_alone(
    test: str, runs: Sequence[RunAttempt], known: Circumstances
) -> tuple[Verdict, str, bool]:
    """It failed in the suite and passed alone: the same order, run again, decides."""
    if test in known.first:
        return Verdict.FLAKY, "failed as the first test of its process, and passed alone", False
    again = _attempts(runs, RunKind.ORDER)
    if any(attempt.is_green for attempt in again):
        return Verdict.FLAKY, "failed, and passed in the same order and alone", False
    if again:
        why = "fails each time after the tests before it, and passes alone"
        return Verdict.FAILED, why, True
    return Verdict.FAILED, "failed; passed alone, but its order could not be run again", False


def _of_failures(
    test: str, failures: Sequence[TestAttempt], known: Circumstances
) -> tuple[Verdict, str]:
    count = len(failures)
    failed = sum(not attempt.is_green for attempt in failures)
    times = f"each of {count} attempts" if failed == count else f"{failed} of {count} attempts"
    if count == 1:
        times = "its attempt"
    if all(attempt.outcome is PytestOutcome.LOST for attempt in failures):
        return Verdict.VOID, f"{times} ended without a result"
    cause = known.causes.get(test)
    if test in known.outside and cause is not None:
        return Verdict.INFRA, f"{times} failed, and the disk is full: {cause}"
    return Verdict.FAILED, f"{times} failed"
