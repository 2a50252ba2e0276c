# SPDX-License-Identifier: Apache-2.0
"""From the records of a run and the end of its process to the attempts of its tests. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.pytest_runs.attempt import PytestOutcome, PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.phase_outcomes import outcome_of
from ci_doctor.pytest_runs.records import (
    CollectErrorRecord,
    CrashRecord,
    FinishRecord,
    InternalErrorRecord,
    ProcessRecord,
    ReadRecords,
    TestRecord,
    TestStartRecord,
)
from ci_doctor.pytest_runs.time_limit import StuckCollection
from ci_doctor.system.processes.process import describe_exit, signal_name

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
    attempts = _attempts(read, rare, end)
    if end.is_cut:
        # What was running then has not failed.
        attempts = tuple(each for each in attempts if each.duration_s is not None)
    session = PytestSession(
        kind=kind,
        chosen=chosen,
        attempts=attempts,
        is_cut=end.is_cut,
        exit_code=code,
        signal=signal,
        collected=collected,
        order=_order(read),
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


def _order(read: ReadRecords) -> dict[int, tuple[str, ...]]:
    """By process id, each test once, in the order of the first starts."""
    order: dict[int, dict[str, None]] = {}
    for record in read.records:
        if isinstance(record, TestStartRecord):
            order.setdefault(record.p, {})[record.id] = None
    return {pid: tuple(names) for pid, names in order.items()}


def _attempts(read: ReadRecords, rare: ReadRecords, end: PytestEnd) -> tuple[TestAttempt, ...]:
    """All attempts, those without a result too, in the order of their ends."""
    workers = {each.p: each.worker for each in rare.records if isinstance(each, ProcessRecord)}
    lost = [*_unfinished(read, rare, end, workers)]
    lost += _crashed_before_their_start(rare, {attempt.test for attempt in lost})
    # Of one test, an attempt that crashed comes before those that ended: it was tried again.
    return (*lost, *_with_result(read, end, workers))


def _with_result(
    read: ReadRecords, end: PytestEnd, workers: Mapping[int, str | None]
) -> Iterator[TestAttempt]:
    starts = {}
    for record in read.records:
        if isinstance(record, TestStartRecord):
            starts[record.p, record.n, record.id] = record.t
    for record in read.records:
        if isinstance(record, TestRecord):
            attempt = _ended(record, workers.get(record.p), starts)
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


def _ended(
    record: TestRecord, worker: str | None, starts: Mapping[tuple[int, int, str], float]
) -> TestAttempt:
    return TestAttempt(
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
