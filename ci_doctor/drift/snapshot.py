# SPDX-License-Identifier: Apache-2.0
"""Pure. A snapshot of an environment: what may decide a result, as it was at one time.

What could not be read is listed as unknown with the reason; a known value is never empty.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ci_doctor.identity.identity import Identity
from ci_doctor.model.about import About

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
