# SPDX-License-Identifier: Apache-2.0
"""From records to attempts."""

import json
from typing import Any

import pytest

from ci_doctor.pytest_runs.attempt import PytestEnd, RunKind, TestAttempt, session_of
from ci_doctor.pytest_runs.records import (
    CollectedRecord,
    CollectRecord,
    Running,
    RunRecord,
    TestRecord,
    TestStartRecord,
    loaded_file,
    overdue_at,
    read_records,
)

PROCESS: dict[str, Any] = {
    "k": "process", "p": 7, "worker": None, "pytest": "9", "python": "3", "root": "/r",
    "plugins": [], "maxfail": 0, "seed": None, "hash_seed": "1", "path": [],
}  # fmt: skip

PASSED = (("setup", "passed", 0.1), ("call", "passed", 0.1), ("teardown", "passed", 0.1))


def start(name: str, n: int, pid: int = 7) -> dict[str, Any]:
    return {"k": "start", "p": pid, "id": name, "n": n, "t": float(n)}


def end(name: str, n: int, *phases: tuple[str, str, float], pid: int = 7) -> dict[str, Any]:
    return {"k": "test", "p": pid, "id": name, "n": n, "t": n + 0.5, "at": 1.0, "phases": phases}


def attempts(lines: list[dict[str, Any]], ending: PytestEnd) -> tuple[TestAttempt, ...]:
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return session_of(RunKind.SUITE, read_records(data), ending, collected=None).attempts


def outcomes(lines: list[dict[str, Any]], ending: PytestEnd) -> list[tuple[str, str]]:
    return [(attempt.test, str(attempt.outcome)) for attempt in attempts(lines, ending)]


@pytest.mark.parametrize(
    ("phases", "outcome"),
    [
        ([("setup", "passed"), ("call", "passed"), ("teardown", "passed")], "passed"),
        ([("setup", "failed"), ("teardown", "passed")], "error"),
        ([("setup", "passed"), ("call", "failed"), ("teardown", "failed")], "failed"),
        ([("setup", "passed"), ("call", "passed"), ("teardown", "failed")], "error"),
        ([("setup", "skipped"), ("teardown", "passed")], "skipped"),
        ([("setup", "passed"), ("call", "xfailed"), ("teardown", "passed")], "xfailed"),
        ([("setup", "passed"), ("call", "rerun"), ("teardown", "passed")], "failed"),
        # A subtest that failed beside its test that passed.
        ([("call", "failed"), ("call", "passed")], "failed"),
        # No pass without its teardown, which pytest.exit leaves out.
        ([("setup", "passed"), ("call", "passed")], "lost"),
        ([("setup", "passed"), ("call", "xfailed")], "lost"),
        # No pass without a call, and none by a word that nobody knows.
        ([("setup", "passed")], "lost"),
        ([("setup", "passed"), ("call", "perhaps")], "lost"),
    ],
)
def test_the_phases_decide_the_outcome(phases: list[tuple[str, str]], outcome: str) -> None:
    timed = [(name, ending, 0.1) for name, ending in phases]
    lines = [PROCESS, start("a", 1), end("a", 1, *timed)]

    assert outcomes(lines, PytestEnd(returncode=0)) == [("a", outcome)]


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        (PytestEnd(returncode=-11), "crashed"),
        (PytestEnd(returncode=0), "lost"),
        (PytestEnd(returncode=None), "lost"),
        (PytestEnd(returncode=-9, timed_out={"b": ""}, limit_s=2.0), "timeout"),
    ],
)
def test_a_test_without_an_end_is_named_by_how_its_process_ended(
    ending: PytestEnd, outcome: str
) -> None:
    lines = [PROCESS, start("a", 1), end("a", 1, *PASSED), start("b", 2)]

    assert outcomes(lines, ending) == [("b", outcome), ("a", "passed")]


def test_a_test_that_outlasts_the_limit_and_ends_is_a_timeout() -> None:
    lines = [PROCESS, start("a", 1), end("a", 1, *PASSED)]

    assert outcomes(lines, PytestEnd(returncode=0, limit_s=0.4)) == [("a", "timeout")]


def test_a_clock_that_the_test_froze_makes_no_timeout() -> None:
    frozen = [("setup", "passed", 1.6e9), ("call", "passed", 0.0), ("teardown", "passed", -1.6e9)]
    lines = [PROCESS, start("a", 1), end("a", 1, *frozen)]

    assert attempts(lines, PytestEnd(returncode=0, limit_s=2.0))[0].duration_s == 0.5
    assert outcomes(lines, PytestEnd(returncode=0, limit_s=2.0)) == [("a", "passed")]


def test_a_crash_of_a_worker_is_told_by_xdist_alone_too() -> None:
    crash = {"k": "crash", "id": "a", "worker": "gw0", "text": "worker 'gw0' crashed"}

    assert outcomes([PROCESS, crash], PytestEnd(returncode=1)) == [("a", "crashed")]


@pytest.mark.parametrize("before", [[], [start("a", 1)]])
def test_a_crash_that_a_plugin_runs_again_says_so(before: list[dict[str, Any]]) -> None:
    crash = {"k": "crash", "id": "a", "worker": "gw0", "text": "crashed", "is_retried": True}

    tried = attempts([PROCESS, *before, crash], PytestEnd(returncode=1))

    assert [attempt.phases for attempt in tried] == [(("crash", "rerun", 0.0),)]


def test_a_line_that_is_cut_off_is_dropped_and_a_damaged_one_is_counted() -> None:
    data = json.dumps(PROCESS).encode() + b'\n{"k":"sta\x00\n{"k":"start","p":7'

    read = read_records(data)

    assert (len(read.records), read.damaged) == (1, 1)


def test_the_order_is_that_of_the_starts_in_each_process() -> None:
    lines = [start("a", 1), start("x", 1, pid=8), start("b", 2), start("b", 3)]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()

    session = session_of(RunKind.SUITE, read_records(data), PytestEnd(returncode=0), collected=None)

    assert session.order == {7: ("a", "b"), 8: ("x",)}


def start_time_limit(name: str, at: float, pid: int = 7) -> TestStartRecord:
    return TestStartRecord(p=pid, id=name, n=1, t=at)


def test_a_test_is_overdue_at_its_limit_and_the_next_look_is_at_the_next_limit() -> None:
    records: list[RunRecord] = [start_time_limit("a", 1.0), start_time_limit("b", 2.5, pid=8)]

    overdue, next_look = overdue_at(3.0, records, 2.0, collection_s=30.0)

    assert [(each.name, each.is_test) for each in overdue] == [("a", True)]
    assert next_look == 4.5


def test_a_test_that_has_ended_is_never_overdue() -> None:
    ended = TestRecord(p=7, id="a", n=1, t=2.0, at=None, phases=())

    records: list[RunRecord] = [start_time_limit("a", 1.0), ended]

    # Whatever begins after this look is due later than the next one.
    assert overdue_at(9.0, records, 2.0, collection_s=30.0) == ([], 11.0)


def test_a_file_that_loads_has_a_limit_of_its_own() -> None:
    records: list[RunRecord] = [
        CollectRecord(p=7, id="test_a.py", t=1.0),
        CollectRecord(p=7, id="test_b.py", t=20.0),
    ]

    early = overdue_at(49.0, records, 2.0, collection_s=30.0)
    (late,), _ = overdue_at(50.0, records, 2.0, collection_s=30.0)
    records.append(CollectedRecord(p=7, t=51.0))

    assert early == ([], 50.0)
    assert (late.name, late.is_test) == ("test_b.py", False)
    assert overdue_at(90.0, records, 2.0, collection_s=30.0)[0] == []


IMPORTED = """Thread 0x00007f (most recent call first):
  File "/x/slow.py", line 1 in <module>
  File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed
  File "/x/tests/{name}", line 2 in <module>
  File "/venv/_pytest/config/__init__.py", line 587 in _importconftest
"""


@pytest.mark.parametrize(
    ("collected", "name", "expected"),
    [
        ("tests", "conftest.py", "/x/tests/conftest.py"),
        ("", "conftest.py", "/x/tests/conftest.py"),
        ("tests/test_a.py", "test_a.py", "tests/test_a.py"),
        ("", "plugin.py", "a plugin or a conftest file"),
    ],
)
def test_the_file_that_hangs_is_the_conftest_file_or_what_is_collected(
    collected: str, name: str, expected: str
) -> None:
    file = Running(name=collected, pid=7, since=1.0, limit_s=1.0)

    assert loaded_file(file, IMPORTED.format(name=name)) == expected
