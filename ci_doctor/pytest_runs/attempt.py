# SPDX-License-Identifier: Apache-2.0
"""Pure. The attempts of a test, from the records of a run and the end of its process."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.pytest_runs.records import (
    CollectErrorRecord,
    CrashRecord,
    FinishRecord,
    InternalErrorRecord,
    ProcessRecord,
    ReadRecords,
    StuckCollection,
    TestRecord,
    TestStartRecord,
)
from ci_doctor.system.processes.process import describe_exit, signal_name

# --- one attempt of a test, and one process of pytest with all of its attempts ---


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


# --- from the outcomes of the phases of a test to its own ---

_FAILED = frozenset({"failed", "rerun", "retried"})
_COMBINATIONS = 1024  # of phases and their outcomes; a suite has a dozen


@lru_cache(_COMBINATIONS)
def outcome_of(phases: tuple[tuple[str, str], ...]) -> PytestOutcome:
    """The worst of all phases: a subtest that failed is a phase of its own."""
    outcomes = {outcome for _, outcome in phases}
    if any(outcome in _FAILED for when, outcome in phases if when == "call"):
        return PytestOutcome.FAILED
    if outcomes & _FAILED:
        return PytestOutcome.ERROR
    # `pytest.exit` in a teardown leaves it out.
    if not any(when == "teardown" for when, _ in phases):
        return PytestOutcome.LOST
    for outcome in (PytestOutcome.XFAILED, PytestOutcome.XPASSED, PytestOutcome.SKIPPED):
        if outcome in outcomes:
            return outcome
    # A test is no pass without its call, nor with an outcome that nobody knows.
    if outcomes == {"passed"} and any(when == "call" for when, _ in phases):
        return PytestOutcome.PASSED
    return PytestOutcome.LOST


# --- from the records of a run and the end of its process to the attempts of its tests ---

_OF_TESTS = (TestStartRecord, TestRecord)


class PytestEnd(Struct, frozen=True, kw_only=True):
    """How a process of pytest ended, as its parent knows it.

    returncode: exit code or negative signal number; None if unknown. timed_out: by node id, after how
    many seconds ci-doctor ended its process. stuck: the collection that ci-doctor ended. interrupted: the signal to
    ci-doctor. last_lines: of what it wrote. limit_s: of one test. is_cut: its own time was
    over, so that ci-doctor ended it.
    """

    returncode: int | None
    duration_s: float = 0.0
    timed_out: Mapping[str, float] = {}
    stacks: Mapping[str, str] = {}
    stuck: StuckCollection | None = None
    left_over: tuple[str, ...] = ()
    interrupted: str | None = None
    log: str | None = None
    last_lines: str = ""
    limit_s: float | None = None
    is_cut: bool = False


def session_of(
    kind: RunKind,
    read: ReadRecords,
    end: PytestEnd,
    *,
    collected: tuple[str, ...] | None,
    chosen: tuple[str, ...] = (),
) -> PytestSession:
    """The run of pytest that wrote these records and ended so."""
    code, signal = _status(end.returncode)
    rare = _without_tests(read)
    # All attempts, those without a result too, in the order of their ends.
    workers = {each.p: each.worker for each in rare.records if isinstance(each, ProcessRecord)}
    lost = [*_unfinished(read, rare, end, workers)]
    lost += _crashed_before_their_start(rare, {attempt.test for attempt in lost})
    # Of one test, an attempt that crashed comes before those that ended: it was tried again.
    attempts = (*lost, *_with_result(read, end, workers))
    if end.is_cut:
        # What was running then has not failed.
        attempts = tuple(each for each in attempts if each.duration_s is not None)
    # By process id, each test once, in the order of the first starts.
    order: dict[int, dict[str, None]] = {}
    for record in read.records:
        if isinstance(record, TestStartRecord):
            order.setdefault(record.p, {})[record.id] = None
    session = PytestSession(
        kind=kind,
        chosen=chosen,
        attempts=attempts,
        is_cut=end.is_cut,
        exit_code=code,
        signal=signal,
        collected=collected,
        order={pid: tuple(names) for pid, names in order.items()},
        duration_s=end.duration_s,
        log=end.log,
        last_lines=end.last_lines,
        interrupted=end.interrupted,
        stuck=end.stuck,
        left_over=end.left_over,
        damaged=read.damaged,
    )
    return _with_circumstances(session, rare)


def _without_tests(read: ReadRecords) -> ReadRecords:
    """All but the starts and the ends of tests: a few, of a hundred thousand records."""
    rare = [each for each in read.records if not isinstance(each, _OF_TESTS)]
    return ReadRecords(records=tuple(rare), damaged=read.damaged)


def _status(returncode: int | None) -> tuple[int | None, str | None]:
    if returncode is None:
        return None, None
    if returncode < 0:
        return None, signal_name(-returncode)
    return returncode, None


def _with_circumstances(session: PytestSession, read: ReadRecords) -> PytestSession:
    """`session` with what its first process says of itself, its errors, and its finish."""
    processes = [each for each in read.records if isinstance(each, ProcessRecord)]
    errors = {each.id: each.text for each in read.records if isinstance(each, CollectErrorRecord)}
    internal = [each.text for each in read.records if isinstance(each, InternalErrorRecord)]
    session = replace(session, collect_errors=errors, internal_errors=tuple(internal))
    main = _main_process(processes)
    if main is None:
        return session
    session = replace(
        session,
        maxfail=main.maxfail,
        seed=main.seed,
        hash_seed=main.hash_seed,
        pytest=main.pytest,
        python=main.python,
        root=main.root,
        plugins=main.plugins,
        path=main.path,
        is_distributed=main.is_controller,
        narrowed=main.narrowed,
    )
    for record in read.records:
        if isinstance(record, FinishRecord) and record.p == main.p:
            session = replace(
                session,
                finished=record.exit,
                is_changed=record.is_changed,
                stopped=record.stopped,
                is_stepwise=record.is_stepwise,
                other_failures=record.other_failures,
            )
    return replace(session, loaded=_loaded(read))


def _main_process(processes: Sequence[ProcessRecord]) -> ProcessRecord | None:
    for process in processes:
        if process.worker is None:
            return process
    return None


def _loaded(read: ReadRecords) -> tuple[str, ...]:
    files: dict[str, None] = {}
    for record in read.records:
        if isinstance(record, FinishRecord):
            files.update(dict.fromkeys(record.loaded))
    return tuple(files)


def _with_result(
    read: ReadRecords, end: PytestEnd, workers: Mapping[int, str | None]
) -> Iterator[TestAttempt]:
    starts = {}
    for record in read.records:
        if isinstance(record, TestStartRecord):
            starts[record.p, record.n, record.id] = record.t
    for record in read.records:
        if isinstance(record, TestRecord):
            worker = workers.get(record.p)
            attempt = TestAttempt(
                test=record.id,
                outcome=outcome_of(tuple([phase[:2] for phase in record.phases])),
                pid=record.p,
                index=record.n,
                worker=worker,
                duration_s=round(_seconds(record, starts), 6),
                started_at=record.at,
                phases=record.phases,
                message=record.message,
                file=record.file,
                line=record.line,
                traceback=record.traceback,
                output=record.output,
            )
            yield _within(attempt, end.limit_s)


def _unfinished(
    read: ReadRecords, rare: ReadRecords, end: PytestEnd, workers: Mapping[int, str | None]
) -> Iterator[TestAttempt]:
    """Attempts that began, of processes that did not finish."""
    finished = {each.p for each in rare.records if isinstance(each, FinishRecord)}
    crashes = _crashes(rare)
    for start in _without_result(read):
        if start.p not in finished:
            yield _without_end(start, workers.get(start.p), end, crashes.get(start.id))


def _crashed_before_their_start(read: ReadRecords, known: Collection[str]) -> Iterator[TestAttempt]:
    """A worker may die before the start is written: pytest-xdist names the test all the same."""
    for name, crash in _crashes(read).items():
        if name not in known:
            yield TestAttempt(
                test=name,
                outcome=PytestOutcome.CRASHED,
                message=crash.text,
                phases=_phases_of(crash),
            )


def _crashes(read: ReadRecords) -> dict[str, CrashRecord]:
    """By node id."""
    return {each.id: each for each in read.records if isinstance(each, CrashRecord)}


def _without_result(read: ReadRecords) -> list[TestStartRecord]:
    """The starts of which no end was written."""
    open_starts: dict[tuple[int, int], TestStartRecord] = {}
    for record in read.records:
        if isinstance(record, TestStartRecord):
            open_starts[record.p, record.n] = record
        elif isinstance(record, TestRecord):
            open_starts.pop((record.p, record.n), None)
    return list(open_starts.values())


def _seconds(record: TestRecord, starts: Mapping[tuple[int, int, str], float]) -> float:
    """How long it ran, by the recorder's clock: pytest's own stands still while a test freezes the time."""
    begun = starts.get((record.p, record.n, record.id))
    if begun is None:
        return sum(phase[2] for phase in record.phases)
    return record.t - begun


def _within(attempt: TestAttempt, limit_s: float | None) -> TestAttempt:
    """`attempt`, a time-out if it ran longer than `limit_s` and ended by itself all the same."""
    seconds = attempt.duration_s or 0.0
    if limit_s is None or seconds <= limit_s:
        return attempt
    message = f"ran for {seconds:g} s, longer than {limit_s:g} s"
    return replace(attempt, outcome=PytestOutcome.TIMEOUT, message=message)


def _without_end(
    start: TestStartRecord, worker: str | None, end: PytestEnd, crash: CrashRecord | None
) -> TestAttempt:
    """The attempt that was running when its process ended."""
    attempt = TestAttempt(
        test=start.id,
        outcome=PytestOutcome.LOST,
        pid=start.p,
        index=start.n,
        worker=worker,
        phases=_phases_of(crash),
        message=None if crash is None else crash.text,
    )
    if start.id in end.timed_out:
        seconds = end.timed_out[start.id]
        return replace(
            attempt,
            outcome=PytestOutcome.TIMEOUT,
            duration_s=seconds,
            message=f"ran longer than {seconds:g} s; ci-doctor ended its process",
            traceback=end.stacks.get(start.id),
        )
    # The status of a worker is pytest-xdist's to know.
    if worker is not None:
        message = attempt.message or "its worker ended without a result"
        return replace(attempt, outcome=PytestOutcome.CRASHED, message=message)
    if end.returncode is None:
        return replace(attempt, message="its process ended in an unknown way")
    how = describe_exit(end.returncode)
    if end.returncode < 0:
        return replace(attempt, outcome=PytestOutcome.CRASHED, message=f"its process was {how}")
    return replace(attempt, message=f"its process ended with {how}, without a result")


def _phases_of(crash: CrashRecord | None) -> tuple[tuple[str, str, float], ...]:
    """A phase that says that the test is run again, if it is."""
    if crash is None or not crash.is_retried:
        return ()
    return (("crash", "rerun", 0.0),)
