# SPDX-License-Identifier: Apache-2.0
"""Pure. The files of a merge by job: its record, and the reports of its commands."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

import msgspec
from msgspec import Struct

from ci_doctor.build.material import Material, RecordFile, ReportFile
from ci_doctor.model.about import About
from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.verdict import rank


class JobFiles(Struct, frozen=True, kw_only=True):
    """What is there of one job.

    job: its id; None if no file names it. place: a path that stands for it. other_records: further
    records of the same id that say something else; the worst one is `record`.
    """

    job: str | None
    place: str
    record: RecordFile | None = None
    other_records: tuple[RecordFile, ...] = ()
    reports: tuple[ReportFile, ...] = ()

    @property
    def about(self) -> About:
        """What the job was about, as its record or its first report has it."""
        if self.record is not None:
            return self.record.record.about
        return self.reports[0].report.about


def files_by_job(material: Material) -> tuple[JobFiles, ...]:
    """Each job with its files, in the order of their places.

    A report belongs to the job that it names, else to the record in the nearest folder above it. A
    report with neither is a job of its own. Files that were downloaded twice count once.
    """
    records: dict[str, list[RecordFile]] = defaultdict(list)
    for record in material.records:
        records[record.record.about.job or f"at {record.place}"].append(record)
    folders = _folders(records)
    reports: dict[str, list[ReportFile]] = defaultdict(list)
    for report in material.reports:
        reports[_owner(report, folders)].append(report)
    keys = {*records, *reports}
    jobs = [_job(records.get(key, []), reports.get(key, [])) for key in keys]
    return tuple(sorted(jobs, key=lambda each: each.place))


def _folders(records: Mapping[str, list[RecordFile]]) -> dict[str, str]:
    """The job of each folder with a record; the last id in their order if there are two."""
    folders = {}
    for key in sorted(records):
        for record in records[key]:
            folders[record.folder] = key
    return folders


def _owner(file: ReportFile, folders: Mapping[str, str]) -> str:
    job = file.report.about.job
    if job is not None:
        return job
    for folder in PurePosixPath(file.place).parents:
        owner = folders.get(str(folder))
        if owner is not None:
            return owner
    return f"at {file.place}"


def _job(records: list[RecordFile], reports: list[ReportFile]) -> JobFiles:
    several = _different_records(records)
    different = _different_reports(reports)
    files: list[RecordFile | ReportFile] = [*several, *different]
    place = min(file.place for file in files)
    named = [report.report.about.job for report in different]
    if several:
        named = [several[0].record.about.job]
    return JobFiles(
        job=named[0],
        place=place,
        record=several[0] if several else None,
        other_records=tuple(several[1:]),
        reports=tuple(different),
    )


def _different_records(records: Iterable[RecordFile]) -> list[RecordFile]:
    """Those that differ, the worst first: what two files say of one job must not make it green.

    A plugin that a step lists twice writes its record twice; the later one of the same says more.
    """
    by_end = sorted(
        records,
        key=lambda each: (each.record.ended_at or "", msgspec.json.encode(each.record), each.place),
    )
    different = {_end_of(each.record): each for each in by_end}
    order = sorted(different, key=lambda end: (rank(different[end].record.verdict), end))
    return [different[end] for end in order]


def _end_of(record: JobRecord) -> bytes:
    """What two records of one job must agree in."""
    status = (record.command_status, record.exit_status)
    return msgspec.json.encode((record.verdict, status, record.about, record.parallel_count))


def _different_reports(reports: Iterable[ReportFile]) -> list[ReportFile]:
    """Those that differ, by the time of their start."""
    by_content = [
        (each.report.started_at, msgspec.json.encode(each.report), each) for each in reports
    ]
    by_content.sort(key=lambda each: (*each[:2], each[2].place))
    contents: dict[bytes, ReportFile] = {}
    for _, content, file in by_content:
        contents.setdefault(content, file)
    return list(contents.values())
