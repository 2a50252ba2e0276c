# SPDX-License-Identifier: Apache-2.0
"""Reads files: what of a shim lies in a site directory, and whose it is."""

from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.preload.bytecode import CACHE, is_compiled, is_cut_off
from ci_doctor.preload.preload_rule import PreloadRule, parse_rule
from ci_doctor.preload.shim_files import (
    FILES,
    MANIFEST,
    OWNER_LINE,
    Manifest,
    decode_manifest,
    digest,
)


class FileCondition(StrEnum):
    """What lies where a file of the shim belongs."""

    ABSENT = "absent"
    OURS = "ours"
    EDITED = "edited"  # it says it is ours, but is not what the manifest says
    FOREIGN = "foreign"
    NOT_A_FILE = "not-a-file"  # a symbolic link, a directory


class SiteState(Struct, frozen=True, kw_only=True):
    """The shim's part of a site directory, by file name; `contents` has the regular files only.

    `compiled` is bytecode of ours, `cut_off` what killed processes left of their writes. `has_cache`: there is a
    directory for bytecode; `shared_cache`: with something in it that is not ours, or empty.
    """

    manifest: Manifest | None
    contents: dict[str, bytes]
    conditions: dict[str, FileCondition]
    compiled: tuple[Path, ...] = ()
    cut_off: tuple[Path, ...] = ()
    has_cache: bool = False
    shared_cache: bool = False

    @property
    def rules(self) -> tuple[PreloadRule, ...]:
        """The rules that the manifest names; none where there is no manifest."""
        return tuple(parse_rule(text) for text in self.manifest.rules) if self.manifest else ()

    @property
    def is_empty(self) -> bool:
        """Nothing that could be ours is there."""
        return not (self.compiled or self.cut_off) and set(self.conditions.values()) == {
            FileCondition.ABSENT
        }


def read_site(site_dir: Path) -> SiteState:
    """Read what lies where the files of a shim belong. Raises UsageError where a file cannot be read."""
    paths = {name: site_dir / name for name in FILES}
    contents = {name: _read(path) for name, path in paths.items() if _is_regular(path)}
    manifest = decode_manifest(contents.get(MANIFEST, b""))
    conditions = {}
    for name, path in paths.items():
        if name in contents:
            conditions[name] = _condition(name, contents[name], manifest)
        else:
            there = path.is_symlink() or path.exists()
            conditions[name] = FileCondition.NOT_A_FILE if there else FileCondition.ABSENT
    cache = site_dir / CACHE
    cached = _entries(cache)
    compiled = [path for path in cached if is_compiled(path.name) and _is_regular(path)]
    cut_off_in_cache = [
        path for path in cached if is_cut_off(path.name, in_cache=True) and _is_regular(path)
    ]
    cut_off = [
        path
        for path in _entries(site_dir)
        if is_cut_off(path.name, in_cache=False) and _is_regular(path)
    ]
    return SiteState(
        manifest=manifest,
        contents=contents,
        conditions=conditions,
        compiled=tuple(compiled),
        cut_off=(*cut_off, *cut_off_in_cache),
        has_cache=cache.is_dir() and not cache.is_symlink(),
        shared_cache=cache.is_dir()
        and (not cached or len(cached) > len(compiled) + len(cut_off_in_cache)),
    )


def _entries(directory: Path) -> list[Path]:
    """What is in `directory` itself; none where it is a link, which may lead to another environment's bytecode."""
    if directory.name == CACHE and directory.is_symlink():
        return []
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


def _condition(name: str, content: bytes, manifest: Manifest | None) -> FileCondition:
    if name == MANIFEST:
        return FileCondition.OURS if manifest else FileCondition.FOREIGN
    if OWNER_LINE.encode() not in content.splitlines()[:2]:
        return FileCondition.FOREIGN
    known = manifest.sha256.get(name, ()) if manifest else ()
    return FileCondition.OURS if digest(content) in known else FileCondition.EDITED


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror or error}", hint="run as the user who owns it"
        ) from error
