# SPDX-License-Identifier: Apache-2.0
"""What runs for too long, by what the recorder wrote so far: a test, or the load of a file. Pure."""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from msgspec import Struct

from ci_doctor.pytest_runs.records import (
    CollectedRecord,
    CollectRecord,
    FinishRecord,
    RunRecord,
    TestRecord,
    TestStartRecord,
)

# A line of faulthandler.
_MODULE: Final = re.compile(r'^  File "(.+)", line \d+ in <module>$', re.MULTILINE)


class RunningTest(Struct, frozen=True, kw_only=True):
    """A test that has begun at `since`, seconds of the monotonic clock, in the process `pid`."""

    test: str
    pid: int
    since: float


class LoadingFile(Struct, frozen=True, kw_only=True):
    """A file or a folder that is being collected since `since`; empty for plugins and conftest files."""

    name: str
    pid: int
    since: float


class StuckCollection(Struct, frozen=True, kw_only=True):
    """The load of `name` took longer than `limit_s` seconds. stack: of the main thread, innermost first."""

    name: str
    limit_s: float
    stack: str = ""


class TimeLimitLook(Struct, frozen=True, kw_only=True):
    """What a look shows: tests and files that are overdue, and when to look again (monotonic seconds)."""

    overdue: tuple[RunningTest, ...]
    stuck: tuple[LoadingFile, ...]
    next_look: float


def look_at(
    records: Sequence[RunRecord], limit_s: float, now: float, *, collection_s: float
) -> TimeLimitLook:
    """Which tests have run for `limit_s` seconds at `now`, and which files have loaded for `collection_s`.

    What begins after `now` is overdue the shorter limit later at the earliest, so that one look at each
    `next_look` misses nothing.
    """
    tests = running_tests(records)
    files = loading_files(records)
    due = [test.since + limit_s for test in tests] + [file.since + collection_s for file in files]
    waits = [each for each in due if each > now]
    return TimeLimitLook(
        overdue=tuple(test for test in tests if test.since + limit_s <= now),
        stuck=tuple(file for file in files if file.since + collection_s <= now),
        next_look=min([now + min(limit_s, collection_s), *waits]),
    )


def running_tests(records: Sequence[RunRecord]) -> tuple[RunningTest, ...]:
    """The tests that have begun and not ended, at most one a process: its last."""
    running: dict[int, TestStartRecord] = {}
    for record in records:
        if isinstance(record, TestStartRecord):
            running[record.p] = record
        elif isinstance(record, TestRecord | FinishRecord):
            running.pop(record.p, None)
    return tuple(RunningTest(test=each.id, pid=each.p, since=each.t) for each in running.values())


def loading_files(records: Sequence[RunRecord]) -> tuple[LoadingFile, ...]:
    """What each process loads now."""
    loading: dict[int, CollectRecord] = {}
    for record in records:
        if isinstance(record, CollectRecord):
            loading[record.p] = record
        elif isinstance(record, CollectedRecord | FinishRecord):
            loading.pop(record.p, None)
    return tuple(LoadingFile(name=each.id, pid=each.p, since=each.t) for each in loading.values())


def loaded_file(file: LoadingFile, stack: str) -> str:
    """What hangs: a conftest file in the `stack` of the main thread, else what pytest collects."""
    for path in _MODULE.findall(stack):
        if PurePath(path).name == "conftest.py":
            return str(path)
    return file.name or "a plugin or a conftest file"
