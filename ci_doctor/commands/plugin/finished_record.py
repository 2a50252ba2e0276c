# SPDX-License-Identifier: Apache-2.0
"""Acts on the job's report directory: writes the record of the job that ends."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ci_doctor.buildkite.hook_record import began_at, command_status
from ci_doctor.buildkite.job import JobEnd, JobEnvironment, work_of
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.about import About
from ci_doctor.model.job_record import JOB_FILE, SCHEMA, JobRecord
from ci_doctor.model.report import Report
from ci_doctor.session.about import read_about, working_directory
from ci_doctor.session.job_record import FinishedJob, record_of
from ci_doctor.system import clock
from ci_doctor.system.files.writing import write_atomically
from ci_doctor.system.secrets.redaction import Redactor

# Of hooks/post-command, if it changes the status.
_STATUS_VARIABLE = "CI_DOCTOR_COMMAND_STATUS"


def kept_record(
    root: Path, reports: Sequence[tuple[Path, Report]], problems: list[str]
) -> JobRecord | None:
    """The job's record without secrets, written to `root`; a line in `problems` if that failed.

    None outside a job.
    """
    job = JobEnvironment.from_environ(os.environ)
    if job is None:
        return None
    job = msgspec.structs.replace(job, work=work_of(os.environ))
    finished = FinishedJob(
        job=job,
        about=_about(job, reports),
        end=JobEnd.from_environ(os.environ),
        root=root,
        reports=reports,
        command_status=_command_status(root),
        began_at=began_at(root),
        ended_at=clock.timestamp(),
    )
    hidden: JobRecord = Redactor.from_environment(os.environ).value(record_of(finished))
    # It is no text: a secret that is a part of it would leave a record that nobody reads.
    record = msgspec.structs.replace(hidden, schema=SCHEMA)
    try:
        content = msgspec.json.format(msgspec.json.encode(record), indent=1)
        write_atomically(root / JOB_FILE, content + b"\n")
    except CiDoctorError as error:
        problems.append(f"{error.message}; the report of the build lacks this job")
    return record


def _command_status(root: Path) -> int | None:
    """How the command ended; None if no hook has kept it."""
    kept = command_status(root)
    exported = os.environ.get(_STATUS_VARIABLE, "")
    if kept is None and re.fullmatch(r"-?[0-9]{1,3}", exported):
        return int(exported)
    return kept


def _about(job: JobEnvironment, reports: Sequence[tuple[Path, Report]]) -> About:
    """The build and the job, from a report if there is one: it has asked git already."""
    for _, report in reports:
        if report.about.job == job.job_id:
            return report.about
    return read_about(os.environ, working_directory())
