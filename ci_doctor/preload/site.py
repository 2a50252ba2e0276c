# SPDX-License-Identifier: Apache-2.0
"""Reads a site directory: which files of a shim are in it, and who wrote them."""

import shlex
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.preload.bytecode import CACHE, is_compiled, is_cut_off
from ci_doctor.preload.damage import damaged_files, known_rules, names_us
from ci_doctor.preload.preload_rule import PreloadRule
from ci_doctor.preload.shim_files import (
    FILES,
    MANIFEST,
    ShimManifest,
    decode_manifest,
    digest,
)


class FileCondition(StrEnum):
    """What occupies the place of a file of the shim."""

    ABSENT = "absent"
    OURS = "ours"
    EDITED = "edited"  # it names us as its owner, but differs from the manifest
    DAMAGED = "damaged"  # what a failed write left of a file of ours
    FOREIGN = "foreign"
    NOT_A_FILE = "not-a-file"  # a symbolic link, a directory


class SiteState(Struct, frozen=True, kw_only=True):
    """The shim's part of a site directory, by file name; `contents` has the regular files only.

    `compiled` is bytecode of ours, `cut_off` the remainders of killed processes. `has_cache`: there
    is a directory for bytecode; `shared_cache`: it holds files that are not ours, or nothing.
    """

    manifest: ShimManifest | None
    contents: dict[str, bytes]
    conditions: dict[str, FileCondition]
    compiled: tuple[Path, ...] = ()
    cut_off: tuple[Path, ...] = ()
    has_cache: bool = False
    shared_cache: bool = False

    @property
    def rules(self) -> tuple[PreloadRule, ...]:
        """The rules that the manifest names; those of the finder if the manifest is damaged."""
        if self.manifest is not None:
            return self.manifest.parsed_rules
        if self.conditions.get(MANIFEST) is not FileCondition.DAMAGED:
            return ()
        return known_rules(self.contents, None) or ()

    @property
    def is_empty(self) -> bool:
        """Nothing is there that could be ours."""
        if self.compiled or self.cut_off:
            return False
        return set(self.conditions.values()) == {FileCondition.ABSENT}


class _Cache(Struct, frozen=True, kw_only=True):
    """The directory for bytecode."""

    compiled: tuple[Path, ...] = ()
    cut_off: tuple[Path, ...] = ()
    exists: bool
    is_shared: bool


def read_site(site_dir: Path) -> SiteState:
    """Read the places of the files of a shim. Raises UsageError if a file cannot be read."""
    contents = {}
    for name in FILES:
        if _is_regular(site_dir / name):
            contents[name] = _read(site_dir / name)
    manifest = decode_manifest(contents.get(MANIFEST, b""))
    conditions = {}
    for name in FILES:
        conditions[name] = _condition(site_dir / name, contents.get(name), manifest)
    for name in damaged_files(contents, manifest):
        if conditions[name] is not FileCondition.OURS:
            conditions[name] = FileCondition.DAMAGED
    cache = _read_cache(site_dir / CACHE)
    cut_off = _files_of(site_dir, lambda name: is_cut_off(name, in_cache=False))
    return SiteState(
        manifest=manifest,
        contents=contents,
        conditions=conditions,
        compiled=cache.compiled,
        cut_off=(*cut_off, *cache.cut_off),
        has_cache=cache.exists,
        shared_cache=cache.is_shared,
    )


def _read_cache(directory: Path) -> _Cache:
    # A link may lead to another environment's bytecode.
    if not directory.is_dir() or directory.is_symlink():
        return _Cache(exists=False, is_shared=directory.is_dir())
    compiled = _files_of(directory, is_compiled)
    cut_off = _files_of(directory, lambda name: is_cut_off(name, in_cache=True))
    count = len(_entries(directory))
    has_others = count > len(compiled) + len(cut_off)
    return _Cache(
        compiled=compiled, cut_off=cut_off, exists=True, is_shared=has_others or count == 0
    )


def _files_of(directory: Path, is_wanted: Callable[[str], bool]) -> tuple[Path, ...]:
    """The regular files with such a name. By name first: a directory has hundreds of entries."""
    entries = [path for path in _entries(directory) if is_wanted(path.name)]
    return tuple(path for path in entries if _is_regular(path))


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UsageError(
            f"cannot read {directory}: {error.strerror or error}",
            hint="run as the user who owns it",
        ) from error


def _is_regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _condition(path: Path, content: bytes | None, manifest: ShimManifest | None) -> FileCondition:
    if content is None:
        occupied = path.is_symlink() or path.exists()
        return FileCondition.NOT_A_FILE if occupied else FileCondition.ABSENT
    if path.name != MANIFEST and not names_us(content):
        return FileCondition.FOREIGN
    if manifest is None:
        return FileCondition.FOREIGN if path.name == MANIFEST else FileCondition.EDITED
    is_written = path.name == MANIFEST or digest(content) in manifest.sha256.get(path.name, ())
    return FileCondition.OURS if is_written else FileCondition.EDITED


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror or error}", hint="run as the user who owns it"
        ) from error


def move_away(path: Path) -> str:
    """The remedy for a file that is not as we wrote it: ci-doctor does not touch it."""
    return f"look at it, move it away (mv {shlex.quote(str(path))} /tmp/) and run this again"
