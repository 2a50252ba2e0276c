# SPDX-License-Identifier: Apache-2.0
"""Pure. What was read for a merge: records of jobs, reports of their commands, and what is neither."""

from pathlib import PurePosixPath

from msgspec import Struct

from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.outcome import Report


class RecordFile(Struct, frozen=True, kw_only=True):
    """A job.json; `place` is its path below what was read."""

    place: str
    record: JobRecord

    @property
    def folder(self) -> str:
        """The folder that it lies in."""
        return str(PurePosixPath(self.place).parent)


class ReportFile(Struct, frozen=True, kw_only=True):
    """A report.json; `place` is its path below what was read."""

    place: str
    report: Report

    @property
    def folder(self) -> str:
        """The folder that it lies in, from that of its job on, as the Artifacts tab shows it.

        The whole path if no folder above it has the job's id.
        """
        parts = PurePosixPath(self.place).parent.parts
        job = self.report.about.job
        if job in parts:
            start = len(parts) - 1 - parts[::-1].index(job)
            parts = parts[start:]
        return "/".join(parts) or "."


class UnreadableFile(Struct, frozen=True, kw_only=True):
    """A file, or a folder, that could not be read; `problem` is a sentence without a full stop."""

    place: str
    problem: str


class Material(Struct, frozen=True, kw_only=True):
    """All that was read. The order of its files means nothing."""

    records: tuple[RecordFile, ...] = ()
    reports: tuple[ReportFile, ...] = ()
    unreadable: tuple[UnreadableFile, ...] = ()
