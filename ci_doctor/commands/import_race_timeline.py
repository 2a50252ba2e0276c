# SPDX-License-Identifier: Apache-2.0
"""Where `ci-doctor import-race` puts the timeline of imports, and what it never replaces."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.imports.record.trace import Process
from ci_doctor.imports.report.timeline import chrome_trace
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.system.files.atomic import write_atomically
from ci_doctor.system.secrets.redaction import Redactor

if TYPE_CHECKING:
    from ci_doctor.model.outcome import Attachment

NAME = "imports.json"
TOOL = "ci-doctor"


class _OtherData(Struct):
    tool: str = ""


class _Ours(Struct):
    otherData: _OtherData  # noqa: N815 - the format's own name


def check_timeline(path: Path) -> None:
    """Raises UsageError where `path` holds something that is not a timeline of ours."""
    if path.exists() and not _is_ours(path):
        raise UsageError(
            f"{path} exists and is not a timeline of ci-doctor",
            hint="name another file, or move it away",
        )


def write_timeline(
    processes: Sequence[Process], named: Path | None, directory: Path | None, redactor: Redactor
) -> "tuple[tuple[Attachment, ...], tuple[Finding, ...]]":
    """Write it where it belongs: the attachment of the report, or the finding that says why there is none."""
    from ci_doctor.model.outcome import Attachment

    if not processes:
        return (), ()
    path = named or (directory or Path()) / NAME
    try:
        check_timeline(path)
        text = msgspec.json.encode(_for_us(chrome_trace(processes))).decode()
        write_atomically(path, redactor.without_values(text).encode())
    except UsageError as error:
        return (), (_not_written(path, error),)
    shown = (
        os.path.relpath(path, directory)
        if directory is not None and _lies_in(path, directory)
        else str(path)
    )
    return (
        Attachment(path=shown, title="imports by thread (Perfetto)", media_type="application/json"),
    ), ()


def _for_us(trace: dict[str, object]) -> dict[str, object]:
    other = trace.get("otherData")
    return {**trace, "otherData": {**(other if isinstance(other, dict) else {}), "tool": TOOL}}


def _is_ours(path: Path) -> bool:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Ours).otherData.tool == TOOL
    except (OSError, msgspec.DecodeError):
        return False


def _lies_in(path: Path, directory: Path) -> bool:
    return path.absolute().is_relative_to(directory.absolute())


def _not_written(path: Path, error: UsageError) -> Finding:
    return Finding(
        rule="import-race/timeline",
        severity=Severity.WARNING,
        summary=f"the timeline of the imports was not written: {error.message}",
        evidence=(Evidence(file=str(path)),),
        remedy="name another file: `--timeline FILE`",
    )
