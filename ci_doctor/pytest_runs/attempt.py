# SPDX-License-Identifier: Apache-2.0
"""Pure. The attempts of a test, from the records of a run and the end of its process."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.model.words import known_moment_text
from ci_doctor.pytest_runs.records import (
    CollectErrorRecord,
    CollectSkipRecord,
    CrashRecord,
    DeselectedRecord,
    FinishRecord,
    InternalErrorRecord,
    ProcessRecord,
    ReadRecords,
    RunRecord,
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


class TestAttempt(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One execution of the test with the node id `test`, from the recorder to the report.

    run: why it was made. outcome: of all its phases. duration_s: of all its phases; None if it did not end.
    started_at: RFC 3339 in UTC. index: it was its process's nth test, from 1. worker: of pytest-xdist. seed: of
    pytest-randomly. hash_seed: PYTHONHASHSEED. phases: (setup, call or teardown; outcome; seconds).
    message: one line or more on why it did not pass. file, line: the place of that. traceback and
    output are bounded: of attempts that did not pass, and of all attempts in reruns. log: what its process wrote.
    """

    __test__ = False  # no class of tests, whatever its name

    test: str
    outcome: PytestOutcome
    run: RunKind
    pid: int | None = None
    index: int | None = None
    worker: str | None = None
    seed: int | None = None
    hash_seed: str | None = None
    duration_s: float | None = None
    started_at: str | None = None
    phases: tuple[tuple[str, str, float], ...] = ()
    message: str | None = None
    file: str | None = None
    line: int | None = None
    traceback: str | None = None
    output: str | None = None
    log: str | None = None

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
    None if nothing was collected in order. collect_errors, collect_skips: by file, why it has no tests.
    deselected: tests that were left out (`-k`), where that was asked for. has_places: files or folders were named. is_changed: a plugin set that status. stopped: why it ran no further tests. is_stepwise: `--sw` stops it at a
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
    collect_skips: dict[str, str] = {}
    deselected: frozenset[str] = frozenset()
    has_places: bool = False
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


class PytestEnd(Struct, kw_only=True):
    """How a process of pytest ended, as its parent knows it.

    returncode: exit code or negative signal number; None if unknown. timed_out: by node id, the stack of a test that
    ran for `limit_s` seconds, so that ci-doctor ended its process. stuck: the collection that ci-doctor ended. interrupted: the signal to
    ci-doctor. last_lines: of what it wrote. is_cut: its own time was over, so that ci-doctor ended it.
    """

    returncode: int | None = None
    duration_s: float = 0.0
    timed_out: dict[str, str] = {}
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
    # By process and count, the starts of which no end was written.
    unfinished: dict[tuple[int, int], TestStartRecord] = {}
    ended: list[tuple[TestRecord, float]] = []
    # By process id, each test once, in the order of the first starts.
    order: dict[int, dict[str, None]] = {}
    # A few, of a hundred thousand records.
    rare: list[RunRecord] = []
    for record in read.records:
        if isinstance(record, TestStartRecord):
            unfinished[record.p, record.n] = record
            order.setdefault(record.p, {})[record.id] = None
        elif isinstance(record, TestRecord):
            start = unfinished.pop((record.p, record.n), None)
            ended.append((record, _seconds(record, start)))
        else:
            rare.append(record)
    finishes = [each for each in rare if isinstance(each, FinishRecord)]
    processes = [each for each in rare if isinstance(each, ProcessRecord)]
    is_signal = end.returncode is not None and end.returncode < 0
    session = PytestSession(
        kind=kind,
        chosen=chosen,
        is_cut=end.is_cut,
        exit_code=None if is_signal else end.returncode,
        signal=signal_name(-(end.returncode or 0)) if is_signal else None,
        collected=collected,
        collect_errors={
            each.id: each.text for each in rare if isinstance(each, CollectErrorRecord)
        },
        collect_skips={each.id: each.text for each in rare if isinstance(each, CollectSkipRecord)},
        deselected=frozenset(
            name for each in rare if isinstance(each, DeselectedRecord) for name in each.ids
        ),
        internal_errors=tuple(each.text for each in rare if isinstance(each, InternalErrorRecord)),
        order={pid: tuple(names) for pid, names in order.items()},
        loaded=tuple(dict.fromkeys(file for each in finishes for file in each.loaded)),
        duration_s=end.duration_s,
        log=end.log,
        last_lines=end.last_lines,
        interrupted=end.interrupted,
        stuck=end.stuck,
        left_over=end.left_over,
        damaged=read.damaged,
    )
    main = next((each for each in processes if each.worker is None), None)
    if main is not None:
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
            narrowed=main.narrowed,
            has_places=main.has_places,
        )
    for finish in finishes:
        if main is not None and finish.p == main.p:
            session = replace(
                session,
                finished=finish.exit,
                is_changed=finish.is_changed,
                stopped=finish.stopped,
                is_stepwise=finish.is_stepwise,
                other_failures=finish.other_failures,
            )
    # All attempts, those without a result too, in the order of their ends. Of one test, an attempt that
    # crashed comes before those that ended: it was tried again.
    workers = {each.p: each.worker for each in processes}
    crashes = {each.id: each for each in rare if isinstance(each, CrashRecord)}
    shared: dict[str, Any] = {
        "run": kind,
        "seed": session.seed,
        "hash_seed": session.hash_seed,
        "log": session.log,
    }
    in_order = {each.p for each in finishes}
    attempts = [
        _without_end(each, workers.get(each.p), end, crashes.get(each.id), shared)
        for each in unfinished.values()
        if each.p not in in_order
    ]
    # A worker may die before the start is written: pytest-xdist names the test all the same.
    known = {each.test for each in attempts}
    attempts += [_crashed(each, shared) for name, each in crashes.items() if name not in known]
    attempts += [_with_end(each, took_s, workers.get(each.p), end.limit_s, shared) for each, took_s in ended]  # fmt: skip
    if end.is_cut:
        # What was running then has not failed.
        attempts = [each for each in attempts if each.duration_s is not None]
    return replace(session, attempts=tuple(attempts))


def _seconds(record: TestRecord, start: TestStartRecord | None) -> float:
    """How long it ran, by the recorder's clock: pytest's own stands still while a test freezes the time."""
    if start is None or start.id != record.id:
        return sum(phase[2] for phase in record.phases)
    return record.t - start.t


def _with_end(
    record: TestRecord,
    took_s: float,
    worker: str | None,
    limit_s: float | None,
    shared: dict[str, Any],
) -> TestAttempt:
    """The attempt that ended; a time-out if it ran longer than `limit_s` and ended by itself all the same."""
    took_s = round(took_s, 6)
    outcome, message = outcome_of(tuple([phase[:2] for phase in record.phases])), record.message
    if limit_s is not None and took_s > limit_s:
        outcome = PytestOutcome.TIMEOUT
        message = f"ran for {took_s:g} s, longer than {limit_s:g} s"
    return TestAttempt(
        **shared,
        test=record.id,
        outcome=outcome,
        pid=record.p,
        index=record.n,
        worker=worker,
        duration_s=took_s,
        started_at=_time_text(record.at),
        phases=record.phases,
        message=message,
        file=record.file,
        line=record.line,
        traceback=record.traceback,
        output=record.output,
    )


def _time_text(epoch_s: float | None) -> str | None:
    """RFC 3339 in UTC, to the millisecond, in which the recorder writes it; None outside the calendar."""
    if epoch_s is None:
        return None
    second, milliseconds = divmod(round(epoch_s * 1000), 1000)
    text = _second_text(second)
    return None if text is None else f"{text[:-5]}.{milliseconds:03}Z"


@lru_cache(64)
def _second_text(second: int) -> str | None:
    """Many tests begin in one second, and a calendar costs as much as the rest of an attempt."""
    return known_moment_text(second)


def _crashed(crash: CrashRecord, shared: dict[str, Any]) -> TestAttempt:
    """The attempt of a worker that died, by pytest-xdist's word; a phase says whether a plugin runs it again."""
    phases = (("crash", "rerun", 0.0),) if crash.is_retried else ()
    return TestAttempt(
        **shared, test=crash.id, outcome=PytestOutcome.CRASHED, message=crash.text, phases=phases
    )


def _without_end(
    start: TestStartRecord,
    worker: str | None,
    end: PytestEnd,
    crash: CrashRecord | None,
    shared: dict[str, Any],
) -> TestAttempt:
    """The attempt that was running when its process ended."""
    attempt = TestAttempt(**shared, test=start.id, outcome=PytestOutcome.LOST)
    if crash is not None:
        attempt = _crashed(crash, shared)
    attempt = replace(attempt, pid=start.p, index=start.n, worker=worker)
    if start.id in end.timed_out:
        return replace(
            attempt,
            outcome=PytestOutcome.TIMEOUT,
            duration_s=end.limit_s,
            message=f"ran longer than {end.limit_s:g} s; ci-doctor ended its process",
            traceback=end.timed_out[start.id] or None,
        )
    # The status of a worker is pytest-xdist's to know.
    if worker is not None:
        message = attempt.message or "its worker ended without a result"
        return replace(attempt, outcome=PytestOutcome.CRASHED, message=message)
    if end.returncode is None:
        how, outcome = "its process ended in an unknown way", PytestOutcome.LOST
    elif end.returncode < 0:
        how, outcome = f"its process was {describe_exit(end.returncode)}", PytestOutcome.CRASHED
    else:
        how = f"its process ended with {describe_exit(end.returncode)}, without a result"
        outcome = PytestOutcome.LOST
    return replace(attempt, outcome=outcome, message=how)
