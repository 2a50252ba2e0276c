# SPDX-License-Identifier: Apache-2.0
"""One attempt of a test, and one process of pytest with all of its attempts. Pure."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from ci_doctor.pytest_runs.time_limit import StuckCollection


class PytestOutcome(StrEnum):
    """How one attempt of a test ended.

    `error`: its setup or teardown failed. `crashed`: the process died by a signal while it ran.
    `timeout`: it ran longer than `--timeout`, and ci-doctor ended the process. `lost`: the process
    ended without a result (os._exit), or no result reached us.
    """

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    XPASSED = "xpassed"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    LOST = "lost"


# What pytest itself counts as no failure.
GREEN = frozenset(
    {
        PytestOutcome.PASSED,
        PytestOutcome.SKIPPED,
        PytestOutcome.XFAILED,
        PytestOutcome.XPASSED,
    }
)


# Outcomes of a phase by which a plugin announces that it runs the test again.
RETRIED = frozenset({"rerun", "retried"})


class RunKind(StrEnum):
    """Why a process of pytest was started.

    `rest`: the tests that one before it did not come to. `alone`: a test by itself. `order`: the tests
    before a failure, in their order, up to it. `new`: new tests once more. `baseline`: failed tests at
    the base. `trial`: a controlled run that explains a flaky test, and no evidence. The values stand in reports.
    """

    SUITE = "suite"
    REST = "rest"
    ALONE = "alone"
    ORDER = "order"
    NEW = "new"
    BASELINE = "baseline"
    TRIAL = "trial"

    @property
    def is_of_suite(self) -> bool:
        """Whether it runs all tests, or those that such a run did not come to."""
        return self in {RunKind.SUITE, RunKind.REST}


class TestAttempt(Struct, frozen=True, kw_only=True, gc=False):
    """One execution of the test with the node id `test`.

    outcome: of all its phases. duration_s: of all its phases; None if it did not end. started_at:
    seconds since the epoch. index: it was this process's nth test, from 1. worker: of pytest-xdist.
    message: one line or more on why it did not pass. file, line: the place of that. traceback and
    output are bounded: of attempts that did not pass, and of all attempts in reruns.
    """

    __test__ = False  # no class of tests, whatever its name

    test: str
    outcome: PytestOutcome
    pid: int | None = None
    index: int | None = None
    worker: str | None = None
    duration_s: float | None = None
    started_at: float | None = None
    phases: tuple[tuple[str, str, float], ...] = ()
    message: str | None = None
    file: str | None = None
    line: int | None = None
    traceback: str | None = None
    output: str | None = None

    @property
    def is_green(self) -> bool:
        """Whether pytest would count it as no failure."""
        return self.outcome in GREEN

    @property
    def was_retried(self) -> bool:
        """Whether a plugin announced with its result that it runs the test again."""
        return any(outcome in RETRIED for _, outcome, _ in self.phases)

    @property
    def has_passed(self) -> bool:
        """Whether it ran, and ended as expected."""
        return self.outcome in GREEN and self.outcome is not PytestOutcome.SKIPPED

    @property
    def has_failed(self) -> bool:
        """Whether it has a result, and pytest would count it as a failure."""
        return self.outcome not in GREEN and self.outcome is not PytestOutcome.LOST


class PytestSession(Struct, frozen=True, kw_only=True):
    """One run of pytest, with all of its workers, that has ended.

    kind: why it was started. chosen: the tests that were asked for; empty for all. exit_code: of the
    process itself, None if a signal ended it. signal: its name. finished: the exit status that pytest
    itself announced; None if it did not come to that. collected: node ids in the order of collection;
    None if nothing was collected in order. is_changed: a plugin set that status. stopped: why it ran no further tests. is_stepwise: `--sw` stops it at a
    failure. narrowed: the option by which the failures of an earlier run left tests out. is_cut: ci-doctor ended it, because the time for
    reruns was over. order: by process id, the tests in the order of their starts.
    duration_s: wall clock. log: the file with what it wrote, last_lines: the end of it. interrupted: the name of the signal to
    ci-doctor that ended it. stuck: what took too long to be collected, so that ci-doctor ended it. left_over: names of processes that outlived it and were stopped. seed: of pytest-randomly. hash_seed: PYTHONHASHSEED.
    """

    kind: RunKind
    chosen: tuple[str, ...] = ()
    attempts: tuple[TestAttempt, ...] = ()
    exit_code: int | None = None
    signal: str | None = None
    finished: int | None = None
    is_changed: bool = False
    stopped: str | None = None
    is_stepwise: bool = False
    narrowed: str | None = None
    is_cut: bool = False
    other_failures: int = 0
    collected: tuple[str, ...] | None = None
    collect_errors: dict[str, str] = {}
    internal_errors: tuple[str, ...] = ()
    order: dict[int, tuple[str, ...]] = {}
    loaded: tuple[str, ...] = ()
    duration_s: float = 0.0
    log: str | None = None
    last_lines: str = ""
    interrupted: str | None = None
    stuck: StuckCollection | None = None
    left_over: tuple[str, ...] = ()
    damaged: int = 0
    maxfail: int = 0
    seed: int | None = None
    hash_seed: str | None = None
    pytest: str | None = None
    python: str | None = None
    root: str | None = None
    plugins: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    is_distributed: bool = False

    @property
    def has_ended_in_order(self) -> bool:
        """Whether pytest came to its end, and the process ended with the status that it announced."""
        return self.finished is not None and self.finished == self.exit_code

    @property
    def how_it_ended(self) -> str:
        """`exit code 1`, `SIGSEGV`."""
        if self.is_cut:
            return "no time left"
        if self.signal is not None:
            return self.signal
        if self.exit_code is None:
            return "an unknown status"
        return f"exit code {self.exit_code}"

    def attempts_of(self, test: str) -> tuple[TestAttempt, ...]:
        """The attempts of one test, in their order."""
        return tuple(attempt for attempt in self.attempts if attempt.test == test)


def collected_tests(sessions: Sequence[PytestSession]) -> Counter[str]:
    """How many tests of each node id one of `sessions` collected, in the order of collection.

    Several tests have one node id if files of the same name lie outside of pytest's root directory. A
    run that an earlier failure narrowed collects a part, and the one after it the others.
    """
    collected: Counter[str] = Counter()
    for session in sessions:
        collected |= Counter(session.collected or ())
    return collected


def missing_tests(sessions: Sequence[PytestSession]) -> tuple[str, ...]:
    """Tests that `sessions` collected, and that have fewer attempts than there are such tests."""
    tried: Counter[str] = Counter()
    for session in sessions:
        tried.update(attempt.test for attempt in session.attempts)
    collected = collected_tests(sessions)
    return tuple(name for name, count in collected.items() if tried[name] < count)
