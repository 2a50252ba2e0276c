# SPDX-License-Identifier: Apache-2.0
"""Pure. What the recorder wrote about a run of pytest, and what runs for too long by it."""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable

# --- what the recorder wrote about a run of pytest, one value for each line ---
# `recorder/ci_doctor_pytest_recorder.py` writes the lines. Times `t` are seconds of the machine's
# monotonic clock, `at` seconds since the epoch, `p` is a process id, `id` the node id of a test.


class ProcessRecord(Struct, frozen=True, kw_only=True, tag_field="k", tag="process"):
    """A process of pytest begins. worker: the name of pytest-xdist for it; None outside of it.

    narrowed: the option by which the failures of an earlier run leave tests out. has_places: files or
    folders are named on the command line.
    """

    p: int
    worker: str | None
    pytest: str
    python: str
    root: str
    plugins: tuple[str, ...]
    maxfail: int
    seed: int | None
    hash_seed: str | None
    path: tuple[str, ...]
    narrowed: str | None = None
    has_places: bool = False


class CollectRecord(Struct, frozen=True, kw_only=True, tag_field="k", tag="collect"):
    """Process `p` begins to load a file or a folder; empty for plugins and the first conftest files."""

    p: int
    id: str
    t: float


class CollectedRecord(Struct, frozen=True, kw_only=True, tag_field="k", tag="collected"):
    """Process `p` loads nothing any more."""

    p: int
    t: float


# gc=False, here and in what is made of them: such values hold no cycles, and the collector would look
# at each of a hundred thousand again and again.
class TestStartRecord(Struct, frozen=True, kw_only=True, gc=False, tag_field="k", tag="start"):
    """Process `p` begins its `n`th test, counted from 1."""

    __test__ = False  # no class of tests, whatever its name

    p: int
    id: str
    n: int
    t: float


class TestRecord(Struct, frozen=True, kw_only=True, gc=False, tag_field="k", tag="test"):
    """One attempt of a test has ended. phases: (setup, call or teardown; outcome; seconds)."""

    __test__ = False  # no class of tests, whatever its name

    p: int
    id: str
    n: int
    t: float
    at: float | None
    phases: tuple[tuple[str, str, float], ...]
    message: str | None = None
    file: str | None = None
    line: int | None = None
    traceback: str | None = None
    output: str | None = None


class CrashRecord(Struct, frozen=True, kw_only=True, tag_field="k", tag="crash"):
    """pytest-xdist reports that a worker ended while it ran the test.

    is_retried: a plugin has another worker run the test again.
    """

    id: str
    worker: str | None
    text: str
    is_retried: bool = False


class CollectErrorRecord(Struct, frozen=True, kw_only=True, tag_field="k", tag="collect-error"):
    """A file or a folder cannot be collected."""

    id: str
    text: str


class CollectSkipRecord(Struct, frozen=True, kw_only=True, tag_field="k", tag="collect-skip"):
    """A file or a folder skips itself."""

    id: str
    text: str


class DeselectedRecord(Struct, frozen=True, kw_only=True, tag_field="k", tag="deselected"):
    """Tests that `-k`, `-m`, `--deselect` or a plugin leaves out."""

    ids: tuple[str, ...]


class InternalErrorRecord(Struct, frozen=True, kw_only=True, tag_field="k", tag="internal-error"):
    """pytest itself, or a plugin, failed."""

    p: int
    text: str


class FinishRecord(Struct, frozen=True, kw_only=True, tag_field="k", tag="finish"):
    """A process of pytest ends in order.

    stopped: why it ran no further tests (`-x`). is_changed: a plugin set the exit status. is_stepwise:
    `--sw` stops it at a failure. other_failures: failures that are no test's, such as a coverage that
    is too small. loaded: files below the watched folder that were loaded.
    """

    p: int
    exit: int
    stopped: str | None
    other_failures: int
    is_changed: bool = False
    is_stepwise: bool = False
    loaded: tuple[str, ...] = ()


RunRecord = (
    ProcessRecord
    | CollectRecord
    | CollectedRecord
    | TestStartRecord
    | TestRecord
    | CrashRecord
    | CollectErrorRecord
    | CollectSkipRecord
    | DeselectedRecord
    | InternalErrorRecord
    | FinishRecord
)
_decode = msgspec.json.Decoder(decodable(RunRecord)).decode


class ReadRecords(Struct, frozen=True, kw_only=True):
    """All records in their order. damaged: how many lines are none."""

    records: tuple[RunRecord, ...] = ()
    damaged: int = 0


def read_records(data: bytes) -> ReadRecords:
    """The records in what the processes of a run wrote; a last line that is cut off is dropped."""
    lines = data.split(b"\n")
    lines.pop()
    records = []
    damaged = 0
    for line in lines:
        try:
            records.append(_decode(line))
        except msgspec.DecodeError:
            damaged += 1
    return ReadRecords(records=tuple(records), damaged=damaged)


# --- what runs for too long, by what the recorder wrote so far: a test, or the load of a file ---

# A line of faulthandler.
_MODULE: Final = re.compile(r'^  File "(.+)", line \d+ in <module>$', re.MULTILINE)


class Running(Struct, frozen=True, kw_only=True):
    """A test that runs, or a file or folder that is collected, in process `pid` since `since` (monotonic seconds).

    name: a node id; of what is collected a path, empty for plugins and conftest files. limit_s: how long it may take.
    """

    name: str
    pid: int
    since: float
    limit_s: float
    is_test: bool = False


class StuckCollection(Struct, frozen=True, kw_only=True):
    """The load of `name` took longer than `limit_s` seconds. stack: of the main thread, innermost first."""

    name: str
    limit_s: float
    stack: str = ""


def overdue_at(
    now: float, records: Sequence[RunRecord], limit_s: float, *, collection_s: float
) -> tuple[list[Running], float]:
    """What has run for too long at `now`, files before tests, and when to look again (monotonic seconds).

    A test has `limit_s` seconds, the load of a file `collection_s`. What begins after `now` is overdue the shorter
    limit later at the earliest, so that one look at each such time misses nothing.
    """
    # Of each process its last one.
    loading: dict[int, CollectRecord] = {}
    tests: dict[int, TestStartRecord] = {}
    for record in records:
        if isinstance(record, TestStartRecord):
            tests[record.p] = record
        elif isinstance(record, CollectRecord):
            loading[record.p] = record
        elif isinstance(record, TestRecord):
            tests.pop(record.p, None)
        elif isinstance(record, CollectedRecord):
            loading.pop(record.p, None)
        elif isinstance(record, FinishRecord):
            tests.pop(record.p, None)
            loading.pop(record.p, None)
    running = [
        Running(name=each.id, pid=each.p, since=each.t, limit_s=collection_s)
        for each in loading.values()
    ]
    running += [
        Running(name=each.id, pid=each.p, since=each.t, limit_s=limit_s, is_test=True)
        for each in tests.values()
    ]
    waits = [each.since + each.limit_s for each in running if each.since + each.limit_s > now]
    overdue = [each for each in running if each.since + each.limit_s <= now]
    return overdue, min([now + min(limit_s, collection_s), *waits])


def loaded_file(file: Running, stack: str) -> str:
    """What hangs: a conftest file in the `stack` of the main thread, else what pytest collects."""
    for path in _MODULE.findall(stack):
        if PurePath(path).name == "conftest.py":
            return str(path)
    return file.name or "a plugin or a conftest file"
