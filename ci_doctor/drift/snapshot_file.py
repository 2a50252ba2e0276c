# SPDX-License-Identifier: Apache-2.0
"""Acts on files: a snapshot is written whole, and read; stamps tell whether it still holds."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from ci_doctor.decodable import decodable
from ci_doctor.drift.snapshot import SCHEMA_NAME, SCHEMA_VERSION, Snapshot
from ci_doctor.errors import UsageError
from ci_doctor.system.files.opening import read_regular
from ci_doctor.system.files.writing import write_atomically

# In a report directory.
SNAPSHOT_FILE: Final = "environment.json"
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
    """Raises UsageError if `content` does not say that it is a snapshot that can be read here."""
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{file} is no snapshot: it is not JSON", hint=_HINT) from error
    schema = value.get("schema") if isinstance(value, dict) else None
    number = schema.removeprefix(SCHEMA_NAME) if isinstance(schema, str) else ""
    if schema != f"{SCHEMA_NAME}{number}" or not (number.isascii() and number.isdigit()):
        raise UsageError(f"{file} is no snapshot: its `schema` is {schema!r}", hint=_HINT)
    if int(number) > SCHEMA_VERSION:
        raise UsageError(
            f"{file} was written by a newer ci-doctor ({schema})",
            hint="install that version, or record the snapshot again with this one",
        )
    try:
        return msgspec.convert(value, decodable(Snapshot))
    except msgspec.ValidationError as error:
        raise UsageError(f"{file} is no snapshot: {error}", hint=_HINT) from error


def stamps_of(paths: Iterable[Path]) -> dict[str, str]:
    """Path -> what a change of it changes; empty for one that does not exist.

    An installer adds to a directory, or replaces it: both are seen.
    """
    stamps = {}
    for path in paths:
        try:
            status = path.stat()
            stamps[str(path)] = f"{status.st_ino} {status.st_mtime_ns}"
        except OSError:
            stamps[str(path)] = ""
    return stamps


def are_current(stamps: Mapping[str, str]) -> bool:
    """Whether nothing has changed since these were taken."""
    return stamps_of(map(Path, stamps)) == stamps
