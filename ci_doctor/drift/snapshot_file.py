# SPDX-License-Identifier: Apache-2.0
"""Acts on files: writes a snapshot whole, and reads one from a file or a report directory."""

from pathlib import Path
from typing import Any

import msgspec

from ci_doctor.drift.snapshot import SCHEMA_NAME, SCHEMA_VERSION, Snapshot
from ci_doctor.drift.stamps import SNAPSHOT_FILE
from ci_doctor.errors import UsageError
from ci_doctor.system.files.atomic import write_atomically
from ci_doctor.system.files.regular_file import read_regular

_HINT = "name a file of `ci-doctor env snapshot -o FILE`, or a report directory"


def encoded(snapshot: Snapshot) -> bytes:
    """`snapshot` as JSON, a fact a line; the same snapshot has the same bytes."""
    return msgspec.json.format(msgspec.json.encode(snapshot), indent=1) + b"\n"


def write_snapshot(snapshot: Snapshot, path: Path) -> None:
    """Write `snapshot`, whole or not at all. Raises UsageError if that is not possible."""
    write_atomically(path, encoded(snapshot))


def read_snapshot(path: Path) -> Snapshot:
    """The snapshot in the file `path`, or in the report directory `path`.

    Raises UsageError if there is none, if it cannot be read, or if its schema is a newer one.
    """
    file = path
    if path.is_dir():
        file = path / SNAPSHOT_FILE
        if not file.is_file():
            raise UsageError(f"{path} holds no {SNAPSHOT_FILE}", hint=_HINT)
    try:
        content = read_regular(file)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=_HINT) from error
    return _decoded(content, file)


def _decoded(content: bytes, file: Path) -> Snapshot:
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{file} is no snapshot: it is not JSON", hint=_HINT) from error
    _check_schema(value, file)
    try:
        return msgspec.convert(value, Snapshot)
    except msgspec.ValidationError as error:
        raise UsageError(f"{file} is no snapshot: {error}", hint=_HINT) from error


def _check_schema(value: Any, file: Path) -> None:
    """Raises UsageError if `value` does not say that it is a snapshot that can be read here."""
    schema = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(schema, str) or not schema.startswith(SCHEMA_NAME):
        raise UsageError(f"{file} is no snapshot: its `schema` is {schema!r}", hint=_HINT)
    number = schema.removeprefix(SCHEMA_NAME)
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"{file} is no snapshot: its `schema` is {schema!r}", hint=_HINT)
    if int(number) > SCHEMA_VERSION:
        raise UsageError(
            f"{file} was written by a newer ci-doctor ({schema})",
            hint="install that version, or record the snapshot again with this one",
        )
