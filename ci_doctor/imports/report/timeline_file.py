# SPDX-License-Identifier: Apache-2.0
"""Acts on files: writes the timeline of imports, and never replaces a file of another tool."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.imports import rules
from ci_doctor.imports.record.recorded import RecordedProcess
from ci_doctor.imports.report.timeline import TOOL, chrome_trace
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.outcome import Attachment
from ci_doctor.system.files.writing import write_atomically
from ci_doctor.system.secrets.redaction import Redactor

NAME = "imports.json"


class TimelineResult(Struct, frozen=True, kw_only=True):
    """The attachment of the report, or the finding that says why there is none.

    Both are empty if nothing was recorded.
    """

    attachments: tuple[Attachment, ...] = ()
    findings: tuple[Finding, ...] = ()


class _OtherData(Struct):
    tool: str = ""


class _Ours(Struct):
    otherData: _OtherData  # noqa: N815 - the format's own name


def check_timeline(path: Path) -> None:
    """Raises UsageError if `path` holds something that is not a timeline of ci-doctor."""
    if path.exists() and not _is_ours(path):
        raise UsageError(
            f"{path} exists and is not a timeline of ci-doctor",
            hint="name another file, or move it away",
        )


def write_timeline(
    processes: Sequence[RecordedProcess],
    named: Path | None,
    directory: Path | None,
    redactor: Redactor,
) -> TimelineResult:
    """Write the timeline to `named`; without it to `directory`, or to the working directory."""
    if not processes:
        return TimelineResult()
    path = named or (directory or Path()) / NAME
    try:
        # Once more: a command that ran for minutes may have written a file of that name.
        check_timeline(path)
        text = msgspec.json.encode(chrome_trace(processes)).decode()
        # Command lines are in it, and may hold secrets.
        write_atomically(path, redactor.without_values(text).encode())
    except UsageError as error:
        return TimelineResult(findings=(_not_written(path, error),))
    attachment = Attachment(
        path=_path_in_report(path, directory),
        title="imports by thread (Perfetto)",
        media_type="application/json",
    )
    return TimelineResult(attachments=(attachment,))


def _is_ours(path: Path) -> bool:
    try:
        content = msgspec.json.decode(path.read_bytes(), type=_Ours)
    except (OSError, msgspec.DecodeError):
        return False
    return content.otherData.tool == TOOL


def _path_in_report(path: Path, directory: Path | None) -> str:
    """Relative to the report directory if it lies in there: the report may be uploaded with it."""
    if directory is not None and path.absolute().is_relative_to(directory.absolute()):
        return os.path.relpath(path, directory)
    return str(path)


def _not_written(path: Path, error: UsageError) -> Finding:
    return rules.TIMELINE.finding(
        f"the timeline of the imports was not written: {error.message}",
        evidence=(Evidence(file=str(path)),),
        remedy=rules.TIMELINE.remedy,
    )
