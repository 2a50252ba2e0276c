# SPDX-License-Identifier: Apache-2.0
"""Acts on files: a snapshot of an environment, what may decide a result; written whole, and read.

What could not be read is listed as unknown with the reason; a known value is never empty. Stamps tell
whether a snapshot still holds.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity
from ci_doctor.model.outcome import About
from ci_doctor.system.files.access import near_path, read_regular, write_atomically

SCHEMA_NAME = "ci-doctor/snapshot/"
SCHEMA_VERSION = 1
SCHEMA = f"{SCHEMA_NAME}{SCHEMA_VERSION}"
# Of 43 characters of a SHA-256: 96 bits tell two contents apart, and a snapshot stays small.
HASH_KEPT: Final = 16


class PackageSnapshot(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One installed distribution.

    `version` is None if nothing names it. `commit` is the origin of an installation that is not from
    an index (PEP 610). `files` maps each file that RECORD lists with a hash to the first characters of
    its hash, in the form of RECORD; of its content, if contents were read. The snapshot of a run has
    `folders` in place of them: a hash for each file and folder at the first two levels.
    `further_versions` are those of other distributions of the same name, behind this one on
    `sys.path`.
    """

    version: str | None = None
    commit: str | None = None
    is_editable: bool = False
    further_versions: tuple[str, ...] = ()
    unknown: dict[str, str] = {}
    files: dict[str, str] = {}
    folders: dict[str, str] = {}

    @property
    def words(self) -> str:
        """The version with what makes it another one: a commit, an editable installation, a second."""
        parts = [self.version or "of unknown version"]
        if self.is_editable:
            parts.append("editable")
        if self.commit is not None:
            parts.append(f"commit {self.commit[:12]}")
        if self.further_versions:
            parts.append(f"and also {', '.join(self.further_versions)}")
        return ", ".join(parts)


class InterpreterSnapshot(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One target interpreter: its path, its version, and its packages by normal name.

    `start_files` maps what each start of the interpreter runs (`.pth`, sitecustomize) to the first
    characters of a hash of its content.
    """

    python: str
    version: str | None = None
    packages: dict[str, PackageSnapshot] = {}
    start_files: dict[str, str] = {}
    unknown: dict[str, str] = {}


class Snapshot(Struct, frozen=True, kw_only=True):
    """An environment at `taken_at` (RFC 3339 in UTC).

    `has_contents`: the contents of installed files were read, and not only RECORD. `machine` holds
    facts of hardware, driver and system; what it notes is not compared. `variables` maps a name to
    its value, or to None if only the name may be kept. `system_packages` maps the name of a package
    of the distribution to its version.
    """

    schema: str = SCHEMA
    tool_version: str
    taken_at: str
    about: About
    has_contents: bool
    machine: Identity
    variables: dict[str, str | None]
    interpreters: tuple[InterpreterSnapshot, ...]
    system_packages: dict[str, str]
    system_packages_unknown: str | None = None


def by_folder(files: Mapping[str, str]) -> dict[str, str]:
    """Path -> hash at the first two levels: `torch/version.py`, and `torch/nn/` for all below it.

    One hash stands for the metadata. A package with thousands of files has some ten of these.
    """
    folders: dict[str, dict[str, str]] = {}
    for path, hash_ in files.items():
        parts = path.split("/", 2)
        key = path
        if parts[0].endswith(".dist-info"):
            key = f"{parts[0]}/"
        elif len(parts) > 2:
            key = f"{parts[0]}/{parts[1]}/"
        folders.setdefault(key, {})[path] = hash_
    return {
        key: digest_of(below) if key.endswith("/") else below[key]
        for key, below in sorted(folders.items())
    }


def digest_of(files: Mapping[str, str]) -> str:
    """One hash, in hex, over all of `files`, in whatever order an installer wrote them."""
    lines = "\n".join(f"{path} {files[path]}" for path in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()[:HASH_KEPT]


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
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", hint=near_path(path) or _HINT
        ) from error
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
