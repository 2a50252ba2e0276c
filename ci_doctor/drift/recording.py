# SPDX-License-Identifier: Apache-2.0
"""Reads the machine at the end of a run: its environment, and what changed since a green one."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from ci_doctor.drift.green_runs import GreenRuns
from ci_doctor.drift.since_green import SinceGreen, since_green, unknown_since_green
from ci_doctor.drift.snapshot import SNAPSHOT_FILE, Snapshot
from ci_doctor.drift.snapshot_file import encoded
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.outcome import ErrorKind, Outcome
from ci_doctor.model.verdict import Verdict
from ci_doctor.session.addition import AddedFile, Addition
from ci_doctor.system.begun_call import TimedOut, bounded

# A report must not wait longer for its section about changes.
LIMIT_S: Final = 2.0
_GREEN: Final = frozenset({Verdict.PASS, Verdict.FLAKY})
_TITLE: Final = "the environment of this run"


class RunRecord(Struct, frozen=True, kw_only=True):
    """How the environment is read, and where green runs are; None if nobody named a place."""

    take: Callable[[], Snapshot]
    green_runs: GreenRuns | None


class _Recorded(Struct, frozen=True, kw_only=True):
    content: bytes
    changes: SinceGreen | None


def addition(
    outcome: Outcome, prepare: Callable[[], RunRecord], limit_s: float = LIMIT_S
) -> Addition:
    """The snapshot of a run, and after a failure what changed since the last green one.

    `prepare` reads the configuration. All of it takes at most `limit_s` seconds. Raises nothing of
    ours: an error becomes one line, after a failure alone.
    """
    if outcome.error is not None and outcome.error.kind is ErrorKind.USAGE:
        return Addition()  # nothing was run
    failed = has_failed(outcome)
    try:
        recorded = bounded(lambda: _record(prepare(), failed=failed), limit_s)
    except TimedOut:
        return _unknown(f"the environment could not be read within {limit_s:g} s", failed=failed)
    except CiDoctorError as error:
        return _unknown(error.message, failed=failed)
    except Exception as error:  # noqa: BLE001 - the report of the run comes first
        return _unknown(f"{type(error).__name__}: {error}", failed=failed)
    file = AddedFile(name=SNAPSHOT_FILE, title=_TITLE, content=recorded.content)
    if recorded.changes is None:
        return Addition(files=(file,))
    return _section(recorded.changes, (file,))


def has_failed(outcome: Outcome) -> bool:
    """Whether a run did not pass: by its verdict, its error, or the status of its command."""
    if outcome.command_status or outcome.error is not None:
        return True
    return outcome.verdict is not None and outcome.verdict not in _GREEN


def _record(record: RunRecord, *, failed: bool) -> _Recorded:
    snapshot = record.take()
    changes = None
    if failed and record.green_runs is not None:
        green = record.green_runs.latest(snapshot.about.step)
        changes = since_green(green, snapshot)
    return _Recorded(content=encoded(snapshot), changes=changes)


def _unknown(reason: str, *, failed: bool) -> Addition:
    if not failed:
        return Addition()
    return _section(unknown_since_green(reason), ())


def _section(changes: SinceGreen, files: tuple[AddedFile, ...]) -> Addition:
    return Addition(tables=(changes.table,), files=files, text=f"  {changes.line}\n")
