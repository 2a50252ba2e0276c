# SPDX-License-Identifier: Apache-2.0
"""Reads files: every job.json and report.json below some paths, by job."""

import errno
import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.errors import UsageError
from ci_doctor.model.facts.build import JOB_FILE, JobRecord
from ci_doctor.model.facts.build import SCHEMA as JOB_SCHEMA
from ci_doctor.model.outcome import About, Report, rank
from ci_doctor.render import REPORT_FILE
from ci_doctor.render.json import parse
from ci_doctor.system.files.access import open_at_once

# --- what was read for a merge: records of jobs, reports of their commands, and what is neither ---


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
    """All that was read. The order of its files means nothing.

    empty: folders that were named beside others, and hold no file to read.
    """

    records: tuple[RecordFile, ...] = ()
    reports: tuple[ReportFile, ...] = ()
    unreadable: tuple[UnreadableFile, ...] = ()
    empty: tuple[str, ...] = ()


# --- every job.json and report.json below some paths. They are data of strangers ---

# A report of 5,000 cases takes 3 MB.
MOST_BYTES: Final = 32 * 1024 * 1024
# The reports of 10,000 jobs, and less memory than any agent has.
MOST_BYTES_IN_ALL: Final = 512 * 1024 * 1024
_MERGED: Final = "build_steps"  # a fact of our own reports


def collect(
    paths: Sequence[Path], *, most: int = MOST_BYTES, most_in_all: int = MOST_BYTES_IN_ALL
) -> Material:
    """All records and reports at `paths`, which are folders or files.

    A file is at most `most` bytes long, all of them together `most_in_all`. What cannot be read is
    a part of the result. Merged reports of builds are passed over. Raises UsageError for a path
    that does not exist.
    """
    unreadable: list[UnreadableFile] = []
    records: list[RecordFile] = []
    reports: list[ReportFile] = []
    left = most_in_all
    places, empty = _files(paths, unreadable)
    for path, place in places:
        try:
            content = _read(path, most, left)
            left -= len(content)
            decoded = _decoded(content)
        except (UsageError, OSError, RecursionError) as error:
            unreadable.append(UnreadableFile(place=place, problem=_problem(error)))
            continue
        if isinstance(decoded, JobRecord):
            records.append(RecordFile(place=place, record=decoded))
        elif _MERGED not in decoded.facts:
            reports.append(ReportFile(place=place, report=decoded))
    return Material(
        records=tuple(records),
        reports=tuple(reports),
        unreadable=tuple(unreadable),
        empty=tuple(empty) if len(paths) > 1 else (),
    )


def _files(
    paths: Sequence[Path], unreadable: list[UnreadableFile]
) -> tuple[list[tuple[Path, str]], list[str]]:
    """Each file once with its place, in the order of their names; and the folders without any."""
    places: dict[Path, str] = {}
    empty = []
    for path in paths:
        if _is_folder(path):
            # By the folder's real place: two names of one folder are one.
            files = list(_below(path.resolve(), unreadable))
            if not files:
                empty.append(path.as_posix())
            for file in files:
                below = file.relative_to(path.resolve())
                # One folder's files have the names of the Artifacts tab; those of several would clash.
                places.setdefault(file, (below if len(paths) == 1 else path / below).as_posix())
        else:
            # Who names a link means its target.
            places.setdefault(path.resolve(), path.as_posix())
    return sorted(places.items()), empty


def _is_folder(path: Path) -> bool:
    """Whether `path` is a folder, not a file. Raises UsageError if there is neither."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        reason = f"there is no {path}"
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
    raise UsageError(reason, hint="name a folder with the artifacts of a build, or files")


def _below(folder: Path, unreadable: list[UnreadableFile]) -> Iterator[Path]:
    def keep(error: OSError) -> None:
        place = os.fsdecode(error.filename or folder)
        unreadable.append(UnreadableFile(place=place, problem=_problem(error)))

    # os.walk follows no links.
    for above, _, names in os.walk(folder, onerror=keep):
        for name in (JOB_FILE, REPORT_FILE):
            if name in names:
                yield Path(above, name)


def _read(path: Path, most: int, left: int) -> bytes:
    """The content of a regular file of at most `most` bytes, of which `left` may be read. Raises UsageError or OSError."""
    # Neither a link out of the folder nor a pipe that nobody writes to.
    descriptor = open_at_once(path, follow=False)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UsageError("it is not a regular file")
        content = file.read(min(most, left) + 1)
    if len(content) > most:
        raise UsageError(f"it is larger than {most // 1024**2} MiB, and was not read")
    if len(content) > left:
        raise UsageError("too much was read before it: merge fewer jobs at once")
    return content


def _decoded(content: bytes) -> JobRecord | Report:
    """What the JSON is by its schema. Raises UsageError, or RecursionError if it is too deep."""
    if not content.strip():
        raise UsageError("it is empty")
    try:
        raw = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(f"it is not JSON: {error}") from error
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if not isinstance(schema, str) or not schema.startswith("ci-doctor/job/"):
        return parse(content)
    if schema != JOB_SCHEMA:
        raise UsageError(f"its schema is {schema!r}; this ci-doctor reads {JOB_SCHEMA!r}")
    try:
        return msgspec.convert(raw, decodable(JobRecord))
    except msgspec.ValidationError as error:
        raise UsageError(f"it is not the record of a job: {error}") from error


def _problem(error: Exception) -> str:
    if isinstance(error, UsageError):
        return error.message
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "it is a link"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return "it is nested too deep"


# --- the files of a merge by job: its record, and the reports of its commands ---


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
    # The job of each folder with a record; the last id in their order if there are two.
    folders = {record.folder: key for key in sorted(records) for record in records[key]}
    reports: dict[str, list[ReportFile]] = defaultdict(list)
    for report in material.reports:
        reports[_owner(report, folders)].append(report)
    keys = {*records, *reports}
    jobs = [_job(records.get(key, []), reports.get(key, [])) for key in keys]
    return tuple(sorted(jobs, key=lambda each: each.place))


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
