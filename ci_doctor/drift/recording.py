# SPDX-License-Identifier: Apache-2.0
"""Reads the machine: the environment of a run, and what changed since a green one.

It is read beside the job, in a process of its own. So a report does not wait for it, unless the job
was shorter than the reading.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.decodable import decodable
from ci_doctor.drift.snapshot import SNAPSHOT_FILE, are_current, encoded
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.outcome import About, Attachment, ErrorKind, Outcome, Table, is_green
from ci_doctor.session.delivery import Addition, not_added
from ci_doctor.system.processes.limited_runs import ForkedCall, TimedOut, bounded

# What reads is imported where it reads: most reports only take up what another process has read.
if TYPE_CHECKING:
    from ci_doctor.drift.reading import TakenSnapshot

# A report must not wait longer for its section about changes.
LIMIT_S: Final = 2.0


class RunRecord(Struct, frozen=True, kw_only=True):
    """How the environment is read, and where green runs are; None if nobody named a place."""

    take: "Callable[[], TakenSnapshot]"
    green_path: Path | None


class RecordedEnvironment(Struct, frozen=True, kw_only=True):
    """What was read: the content of the file, and what changed as a table and as one line.

    `changes` is None if no green run is named. `about` and `stamps` are those of `TakenSnapshot`.
    """

    content: bytes
    changes: Table | None
    line: str
    about: About
    stamps: dict[str, str]


def recorded(record: RunRecord) -> bytes:
    """The environment read now, as `addition` gets it from another process."""
    return msgspec.msgpack.encode(_record(record))


def addition(
    outcome: Outcome,
    prepare: Callable[[], RunRecord],
    limit_s: float = LIMIT_S,
    *,
    begun: ForkedCall | None = None,
    in_haste: bool = False,
) -> Addition:
    """The snapshot of a run, and after a failure what changed since the last green one.

    It is what was `begun`, if nothing was installed since then; else it is read now. `prepare` reads
    the configuration. `in_haste` what was begun is awaited only if a green run is named, and nothing
    waits longer than `limit_s` seconds. Raises nothing of ours: an error becomes one line, after a
    failure alone.
    """
    failed = has_failed(outcome)
    if outcome.error is not None and outcome.error.kind is ErrorKind.USAGE:
        _drop(begun)
        return Addition()  # nothing was run
    try:
        # Nobody waits for a reading that is unfinished, unless a green run has something to say.
        is_early = in_haste and begun is not None and not begun.has_ended()
        if is_early and prepare().green_path is None:
            _drop(begun)
            return not_added(f"{SNAPSHOT_FILE}: the run ended before the environment was read")
        environment = _begun(begun, limit_s)
        if environment is None:
            environment = bounded(lambda: _record(prepare()), limit_s)
    except Exception as error:  # noqa: BLE001 - the report of the run comes first
        return _unread(error, limit_s, failed=failed)
    file = Attachment(
        path=SNAPSHOT_FILE, title="the environment of this run", media_type="application/json"
    )
    addition = Addition(file=file, content=environment.content, about=environment.about)
    if environment.changes is None or not failed:
        return addition
    return replace(addition, tables=(environment.changes,), text=f"  {environment.line}\n")


def has_failed(outcome: Outcome) -> bool:
    """Whether a run did not pass: by its verdict, its error, or the status of its command."""
    if outcome.command_status or outcome.error is not None:
        return True
    return outcome.verdict is not None and not is_green(outcome.verdict)


def _drop(begun: ForkedCall | None) -> None:
    if begun is not None:
        begun.end()


def _begun(begun: ForkedCall | None, limit_s: float) -> RecordedEnvironment | None:
    """What was begun; None if nothing was, if it came to no end, or if it holds no longer.

    Raises TimedOut after `limit_s` seconds.
    """
    content = begun.result(limit_s) if begun is not None else b""
    # An error is met again, and told, where it is read now.
    if not content:
        return None
    environment = msgspec.msgpack.decode(content, type=decodable(RecordedEnvironment))
    return environment if are_current(environment.stamps) else None


def _record(record: RunRecord) -> RecordedEnvironment:
    from ci_doctor.drift.green import latest_green, since_green
    from ci_doctor.drift.reading import for_a_report

    taken = record.take()
    changes, line = None, ""
    if record.green_path is not None:
        green = latest_green(record.green_path, taken.snapshot.about.step)
        section = since_green(green, taken.snapshot)
        changes, line = section.table, section.line
    content = encoded(for_a_report(taken.snapshot))
    return RecordedEnvironment(
        content=content, changes=changes, line=line, about=taken.about, stamps=taken.stamps
    )


def _unread(error: Exception, limit_s: float, *, failed: bool) -> Addition:
    reason = f"{type(error).__name__}: {error}"
    match error:
        case TimedOut():
            reason = f"the environment could not be read within {limit_s:g} s"
            if not failed:
                return not_added(f"{SNAPSHOT_FILE}: {reason}")
        case CiDoctorError():
            reason = error.message
        case _:
            pass
    if not failed:
        return Addition()
    from ci_doctor.drift.green import unknown_since_green

    section = unknown_since_green(reason)
    return Addition(tables=(section.table,), text=f"  {section.line}\n")
