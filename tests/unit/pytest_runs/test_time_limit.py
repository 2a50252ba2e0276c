# SPDX-License-Identifier: Apache-2.0
"""When a test runs for too long, and when to look again."""

import pytest

from ci_doctor.pytest_runs.records import (
    CollectedRecord,
    CollectRecord,
    LoadingFile,
    RunRecord,
    TestRecord,
    TestStartRecord,
    loaded_file,
    look_at,
)


def start(name: str, at: float, pid: int = 7) -> TestStartRecord:
    return TestStartRecord(p=pid, id=name, n=1, t=at)


def test_a_test_is_overdue_at_its_limit_and_the_next_look_is_at_the_next_limit() -> None:
    records: list[RunRecord] = [start("a", 1.0), start("b", 2.5, pid=8)]

    look = look_at(records, 2.0, 3.0, collection_s=30.0)

    assert [test.test for test in look.overdue] == ["a"]
    assert look.next_look == 4.5


def test_a_test_that_has_ended_is_never_overdue() -> None:
    ended = TestRecord(p=7, id="a", n=1, t=2.0, at=None, phases=())

    look = look_at([start("a", 1.0), ended], 2.0, 9.0, collection_s=30.0)

    assert look.overdue == ()
    # Whatever begins after this look is due later than the next one.
    assert look.next_look == 11.0


def test_a_file_that_loads_has_a_limit_of_its_own() -> None:
    records: list[RunRecord] = [
        CollectRecord(p=7, id="test_a.py", t=1.0),
        CollectRecord(p=7, id="test_b.py", t=20.0),
    ]

    early = look_at(records, 2.0, 49.0, collection_s=30.0)
    late = look_at(records, 2.0, 50.0, collection_s=30.0)
    loaded = look_at([*records, CollectedRecord(p=7, t=51.0)], 2.0, 90.0, collection_s=30.0)

    assert (early.stuck, early.next_look) == ((), 50.0)
    assert [file.name for file in late.stuck] == ["test_b.py"]
    assert (late.overdue, loaded.stuck) == ((), ())


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
    file = LoadingFile(name=collected, pid=7, since=1.0)

    assert loaded_file(file, IMPORTED.format(name=name)) == expected
