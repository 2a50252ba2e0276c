# SPDX-License-Identifier: Apache-2.0
import threading
from pathlib import Path

import pytest

from ci_doctor.drift.reading import TakenSnapshot
from ci_doctor.drift.recording import RunRecord, addition, has_failed, recorded
from ci_doctor.drift.snapshot import SNAPSHOT_FILE, Snapshot, encoded, stamps_of, write_snapshot
from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import About, ErrorKind, Failure, Outcome, Verdict
from ci_doctor.system.processes.limited_runs import ForkedCall, TimedOut
from tests.support.snapshots import a_snapshot

PASSED = Outcome(verdict=Verdict.PASS, summary="all went well")
FAILED = Outcome(verdict=Verdict.FAILED, summary="vllm died")


@pytest.fixture(autouse=True)
def _green_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "GREEN", tmp_path / "green.json")


GREEN = Path()


def record(green: Snapshot | None = None) -> RunRecord:
    if green is not None:
        write_snapshot(green, GREEN)
    return RunRecord(
        take=lambda: TakenSnapshot(snapshot=a_snapshot(facts={"driver": "580.2"}), about=About()),
        green_path=None if green is None else GREEN,
    )


def test_a_run_that_passed_leaves_its_environment() -> None:
    added = addition(PASSED, lambda: record(a_snapshot(facts={"driver": "580.1"})))

    assert added.file is not None
    assert added.file.path == SNAPSHOT_FILE
    assert added.content == encoded(record().take().snapshot)
    assert (added.tables, added.text) == ((), "")


def test_a_failure_says_what_changed() -> None:
    added = addition(FAILED, lambda: record(a_snapshot(facts={"driver": "580.1"})))

    (table,) = added.tables
    assert table.rows[0].label == "since the last green run: driver 580.1 -> 580.2"
    assert added.text == "  since the last green run: driver 580.1 -> 580.2\n"
    assert added.file is not None


def test_a_failure_without_a_configured_green_run_has_no_section() -> None:
    added = addition(FAILED, record)

    assert added.tables == ()
    assert added.content


def test_a_command_line_that_was_wrong_has_run_nothing() -> None:
    def prepare() -> RunRecord:
        raise AssertionError("nothing is read")

    error = Failure(message="no such service", kind=ErrorKind.USAGE)
    outcome = Outcome(verdict=None, summary="no such service", error=error)

    added = addition(outcome, prepare)

    assert (added.tables, added.file, added.text) == ((), None, "")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (UsageError("ci-doctor.toml:3: unknown key"), "ci-doctor.toml:3: unknown key"),
        (OSError(5, "Input/output error"), "OSError: [Errno 5] Input/output error"),
        (RecursionError("too deep"), "RecursionError: too deep"),
    ],
)
def test_an_error_is_one_line_after_a_failure_and_none_after_a_pass(
    error: Exception, reason: str
) -> None:
    def prepare() -> RunRecord:
        raise error

    (table,) = addition(FAILED, prepare).tables

    assert [row.label for row in table.rows] == [f"unknown: {reason}"]
    assert addition(PASSED, prepare).tables == ()


def test_a_reading_that_hangs_does_not_hold_up_the_report() -> None:
    never = threading.Event()

    def prepare() -> RunRecord:
        never.wait()
        return record()

    (table,) = addition(FAILED, prepare, limit_s=0.01).tables

    never.set()
    assert "could not be read within 0.01 s" in table.rows[0].label


def test_what_has_failed_is_known_by_verdict_error_and_status() -> None:
    error = Failure(message="terminated", kind=ErrorKind.SIGTERM)

    assert has_failed(FAILED)
    assert has_failed(Outcome(verdict=None, summary="terminated", error=error))
    assert has_failed(Outcome(verdict=None, summary="exit code 3", command_status=3))
    assert not has_failed(PASSED)
    assert not has_failed(Outcome(verdict=Verdict.FLAKY, summary="one differed"))
    assert not has_failed(Outcome(verdict=None, summary="exit code 0", command_status=0))


class Begun(ForkedCall):
    """A reading beside the run: with its result, or unfinished for ever."""

    def __init__(self, content: bytes | None) -> None:
        self.content = content
        self.is_dropped = False

    def has_ended(self, limit_s: float = 0.0) -> bool:
        return self.content is not None

    def result(self, limit_s: float) -> bytes:
        if self.content is None:
            raise TimedOut(f"no answer within {limit_s:g} s")
        return self.content

    def end(self) -> None:
        self.is_dropped = True


def no_record() -> RunRecord:
    raise AssertionError("nothing is read at the end")


def test_what_was_read_beside_the_run_is_taken_up() -> None:
    begun = Begun(recorded(record(a_snapshot(facts={"driver": "580.1"}))))

    added = addition(FAILED, no_record, begun=begun)

    assert added.text == "  since the last green run: driver 580.1 -> 580.2\n"
    assert added.file is not None


def test_what_was_installed_since_then_is_read_again(tmp_path: Path) -> None:
    stamps = stamps_of([tmp_path])
    taken = TakenSnapshot(snapshot=a_snapshot(), about=About(), stamps=stamps)
    begun = Begun(recorded(RunRecord(take=lambda: taken, green_path=None)))
    (tmp_path / "x-1.dist-info").mkdir()

    assert b"580.2" in addition(PASSED, record, begun=begun).content


def test_a_death_drops_an_unfinished_reading_and_says_so() -> None:
    begun = Begun(None)

    added = addition(FAILED, record, begun=begun, in_haste=True)

    assert begun.is_dropped
    assert added.file is None
    assert "ended before the environment was read" in added.tables[0].rows[0].label


def test_a_death_with_a_green_run_to_compare_with_waits_for_the_reading() -> None:
    added = addition(FAILED, lambda: record(a_snapshot()), begun=Begun(None), in_haste=True)

    assert "could not be read within 2 s" in added.tables[0].rows[0].label
