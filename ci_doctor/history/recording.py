# SPDX-License-Identifier: Apache-2.0
"""Acts on a database: a run of another command goes into the history, at its end.

It waits two seconds for a lock or a connection and five for all, and raises nothing: the report of
the run comes first.
"""

import os
from typing import Final

from ci_doctor.buildkite.job import step_label
from ci_doctor.errors import CiDoctorError, UsageError
from ci_doctor.history.address import DatabaseAddress, require_extra
from ci_doctor.history.evidence import (
    Hide,
    PlacedFile,
    evidence_of_file,
    job_without_secrets,
    surroundings,
)
from ci_doctor.history.own_report import evidence_of
from ci_doctor.model.facts.history import HISTORY_TITLE
from ci_doctor.model.outcome import Report, Table, text_table
from ci_doctor.system import clock
from ci_doctor.system.processes.limited_runs import TimedOut, bounded

_BUSY_S: Final = 2.0
# A server that accepts and never answers holds a connection up without end, and with several hosts
# `connect_timeout` holds for each.
LIMIT_S: Final = 5.0


def record(address: DatabaseAddress, report: Report, hide: Hide, limit_s: float = LIMIT_S) -> Table:
    """Write `report`, which holds no secret; a line that says how often its cause was seen before.

    hide: takes the secrets out of what the job's environment adds. limit_s: of wall clock, for all that the database is asked.
    """
    try:
        require_extra("history" if address.file is not None else "postgres")
        import ci_doctor.history.writing  # noqa: F401 - its time is not the database's

        line = bounded(lambda: _record(address, report, hide), limit_s)
    except TimedOut as error:
        line = f"not written: {address.label}: {error}"
    except CiDoctorError as error:
        line = f"not written: {error.message}"
    except Exception as error:  # noqa: BLE001 - the report of the run comes first
        line = f"not written: {type(error).__name__}: {error}"
    return text_table(HISTORY_TITLE, (line,))


def _record(address: DatabaseAddress, report: Report, hide: Hide) -> str:
    # Here, because they import SQLAlchemy, which the extra brings.
    from ci_doctor.history.database import reading
    from ci_doctor.history.evidence import JobEvidence
    from ci_doctor.history.flaky import seen_phrase
    from ci_doctor.history.upkeep import open_database
    from ci_doctor.history.writing import EvidenceWriter

    now_ms = round(clock.epoch() * 1000)
    parsed = evidence_of(report)
    file = PlacedFile(
        place=report.command, sha256=parsed.key or "", modified_ms=now_ms, parsed=parsed
    )
    # The report of a run has no label, and the record of its job will have the same one.
    known = JobEvidence(label=step_label(os.environ) if report.about.job is not None else None)
    evidence = evidence_of_file(file, surroundings([], []), job_without_secrets(known, hide))
    engine = open_database(address, busy_s=_BUSY_S)
    try:
        line = f"this run is in {address.label}"
        cause = parsed.job.cause
        if cause is not None:
            with reading(engine) as connection:
                line = f"cause {cause.fingerprint}: {seen_phrase(connection, cause.fingerprint)}"
        try:
            EvidenceWriter(engine).write([evidence], now_ms)
        except UsageError as error:
            # A job that may only read, as one of a pull request.
            if cause is None:
                raise
            line = f"{line}; this run is not written: {error.message}"
    finally:
        engine.dispose()
    return line
