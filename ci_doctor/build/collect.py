# SPDX-License-Identifier: Apache-2.0
"""Reads files: every job.json and report.json below some paths. They are data of strangers."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from ci_doctor.build.material import Material, RecordFile, ReportFile, UnreadableFile
from ci_doctor.decodable import decodable
from ci_doctor.errors import UsageError
from ci_doctor.model.job_record import JOB_FILE, JobRecord
from ci_doctor.model.job_record import SCHEMA as JOB_SCHEMA
from ci_doctor.model.outcome import Report
from ci_doctor.render import REPORT_FILE
from ci_doctor.render.json import parse
from ci_doctor.system.files.opening import open_at_once

# A report of 5,000 cases takes 3 MB.
MOST_BYTES: Final = 32 * 1024 * 1024
# The reports of 10,000 jobs, and less memory than any agent has.
MOST_BYTES_IN_ALL: Final = 512 * 1024 * 1024
_MERGED: Final = "build_steps"  # a fact of our own reports


class _File(Struct, frozen=True):
    path: Path
    place: str


class _Bounds:
    """How much may still be read."""

    def __init__(self, each: int, in_all: int) -> None:
        self.each = each
        self.left = in_all


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
    bounds = _Bounds(most, most_in_all)
    for file in _files(paths, unreadable):
        try:
            content = _read(file.path, bounds)
            decoded = _decoded(content)
        except (UsageError, OSError, RecursionError) as error:
            unreadable.append(UnreadableFile(place=file.place, problem=_problem(error)))
            continue
        if isinstance(decoded, JobRecord):
            records.append(RecordFile(place=file.place, record=decoded))
        elif _MERGED not in decoded.facts:
            reports.append(ReportFile(place=file.place, report=decoded))
    return Material(records=tuple(records), reports=tuple(reports), unreadable=tuple(unreadable))


def _files(paths: Sequence[Path], unreadable: list[UnreadableFile]) -> Iterator[_File]:
    """Each file once, in the order of their names."""
    places: dict[Path, str] = {}
    for path in paths:
        if path.is_dir():
            # One folder's files have the names of the Artifacts tab; those of several would clash.
            top = path if len(paths) == 1 else Path()
            for file in _below(path, unreadable):
                places[file] = file.relative_to(top).as_posix()
        elif path.exists():
            # Who names a link means its target.
            places[path.resolve()] = path.as_posix()
        else:
            raise UsageError(
                f"there is no {path}", hint="name a folder with the artifacts of a build, or files"
            )
    for path in sorted(places):
        yield _File(path, places[path])


def _below(folder: Path, unreadable: list[UnreadableFile]) -> Iterator[Path]:
    def keep(error: OSError) -> None:
        place = os.fsdecode(error.filename or folder)
        unreadable.append(UnreadableFile(place=place, problem=_problem(error)))

    # os.walk follows no links.
    for above, _, names in os.walk(folder, onerror=keep):
        for name in (JOB_FILE, REPORT_FILE):
            if name in names:
                yield Path(above, name)


def _read(path: Path, bounds: _Bounds) -> bytes:
    """The content of a regular file within `bounds`. Raises UsageError or OSError."""
    # Neither a link out of the folder nor a pipe that nobody writes to.
    descriptor = open_at_once(path, follow=False)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UsageError("it is not a regular file")
        most = min(bounds.each, bounds.left)
        content = file.read(most + 1)
    if len(content) > bounds.each:
        raise UsageError(f"it is larger than {bounds.each // 1024**2} MiB, and was not read")
    if len(content) > bounds.left:
        raise UsageError("too much was read before it: merge fewer jobs at once")
    bounds.left -= len(content)
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
