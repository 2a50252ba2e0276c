# SPDX-License-Identifier: Apache-2.0
"""Acts on a database: a run of another command goes into the history, at its end.

It waits two seconds for the database at most, and raises nothing: the report of the run comes first.
"""

import os
from typing import Final

from ci_doctor.buildkite.job import step_label
from ci_doctor.errors import CiDoctorError
from ci_doctor.history.address import DatabaseAddress
from ci_doctor.history.extra import require_extra
from ci_doctor.history.reading.own_report import evidence_of
from ci_doctor.history.reading.placed_evidence import PlacedFile, evidence_of_file, surroundings
from ci_doctor.model.facts.history import HISTORY_TITLE
from ci_doctor.model.report import Report
from ci_doctor.model.table import Table, text_table
from ci_doctor.system import clock

_BUSY_S: Final = 2.0


def record(address: DatabaseAddress, report: Report) -> Table:
    """Write `report`; a line that says how often its cause was seen before."""
    try:
        require_extra("history" if address.file is not None else "postgres")
        line = _record(address, report)
    except CiDoctorError as error:
        line = f"not written: {error.message}"
    except Exception as error:  # noqa: BLE001 - the report of the run comes first
        line = f"not written: {type(error).__name__}: {error}"
    return text_table(HISTORY_TITLE, (line,))


def _record(address: DatabaseAddress, report: Report) -> str:
    # Here, because they import SQLAlchemy, which the extra brings.
    from ci_doctor.history.batch_write import EvidenceWriter
    from ci_doctor.history.engine import reading
    from ci_doctor.history.evidence import JobEvidence
    from ci_doctor.history.migration import open_database
    from ci_doctor.history.seen import seen_before, seen_phrase

    now_ms = round(clock.epoch() * 1000)
    parsed = evidence_of(report)
    file = PlacedFile(
        place=report.command, sha256=parsed.key or "", modified_ms=now_ms, parsed=parsed
    )
    # The report of a run has no label, and the record of its job will have the same one.
    known = JobEvidence(label=step_label(os.environ) if report.about.job is not None else None)
    evidence = evidence_of_file(file, surroundings([], []), known)
    engine = open_database(address, busy_s=_BUSY_S)
    try:
        line = f"this run is in {address.label}"
        cause = parsed.job.cause
        if cause is not None:
            with reading(engine) as connection:
                line = f"cause {cause.fingerprint}: {seen_phrase(seen_before(connection, cause.fingerprint))}"
        EvidenceWriter(engine).write([evidence], now_ms)
    finally:
        engine.dispose()
    return line
