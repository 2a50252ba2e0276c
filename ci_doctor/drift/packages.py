# SPDX-License-Identifier: Apache-2.0
"""Reads site directories: every installed distribution, without importing or starting anything."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from ci_doctor.drift.metadata import PackageMetadata, parse_metadata
from ci_doctor.drift.record import content_hash, digest_of, is_comparable, recorded_files
from ci_doctor.drift.snapshot import PackageSnapshot
from ci_doctor.identity.libraries import commit_of
from ci_doctor.identity.library_names import normal

_METADATA_BYTES: Final = 1 << 18
_RECORD_BYTES: Final = 64 << 20
_MISSING: Final = "missing"
_PROGRAM: Final = re.compile(r"[\w.+-]{1,40}")


class _DistributionPlace(NamedTuple):
    """A distribution: the directory that its files lie in, and the folder of its metadata."""

    site: Path
    folder: Path


def read_packages(directories: Iterable[Path], *, contents: bool) -> dict[str, PackageSnapshot]:
    """Every distribution by its normal name; of two of one name, the one that is imported.

    `contents`: read the files too, which takes as long as reading all of them does. Raises nothing:
    what cannot be read is unknown.
    """
    packages: dict[str, PackageSnapshot] = {}
    for place in _places(directories):
        metadata = _metadata(place.folder)
        stem = place.folder.name.rpartition(".")[0]
        name, _, rest = stem.partition("-")
        name = normal(metadata.name or name)
        version = metadata.version or rest.partition("-")[0] or None
        former = packages.get(name)
        if former is not None:
            further = (*former.further_versions, version or "unknown")
            packages[name] = replace(former, further_versions=further)
            continue
        packages[name] = _package(place, metadata, version, contents=contents)
    return dict(sorted(packages.items()))


def _places(directories: Iterable[Path]) -> Iterator[_DistributionPlace]:
    for directory in directories:
        try:
            names = sorted(os.listdir(directory))  # noqa: PTH208 - names only
        except OSError:
            continue
        for name in names:
            # What pip leaves of a broken installation begins with `~`, and is imported by nobody.
            if name.endswith((".dist-info", ".egg-info")) and not name.startswith("~"):
                yield _DistributionPlace(directory, directory / name)


def _package(
    place: _DistributionPlace, metadata: PackageMetadata, version: str | None, *, contents: bool
) -> PackageSnapshot:
    unknown: dict[str, str] = {}
    if version is None:
        unknown["version"] = f"{place.folder.name} names none"
    origin = _origin(place.folder)
    is_editable = bool(_table(origin, "dir_info").get("editable"))
    commit = _table(origin, "vcs_info").get("commit_id")
    if is_editable:
        commit = _checked_out(origin)
        unknown["files"] = "an editable installation: its commit stands for them"
        if commit is None:
            unknown["commit"] = "the directory of the editable installation is no git checkout"
        files: dict[str, str] = {}
        modified: tuple[str, ...] = ()
    else:
        files, modified = _files(place, unknown, contents=contents)
    url = origin.get("url")
    return PackageSnapshot(
        version=version,
        installer=_installer(place.folder),
        url=str(url) if url else None,
        commit=str(commit) if commit else None,
        is_editable=is_editable,
        record=digest_of(files) if files else None,
        address=metadata.address,
        modified=modified,
        unknown=unknown,
        files=files,
    )


def _files(
    place: _DistributionPlace, unknown: dict[str, str], *, contents: bool
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The files with their hashes, and those whose content is not the recorded one."""
    files = recorded_files(_text(place.folder / "RECORD", _RECORD_BYTES))
    if not files:
        unknown["files"] = "there is no RECORD with hashes"
        return {}, ()
    if not contents:
        return files, ()
    actual = _content_hashes(place.site, files)
    modified = [path for path, hash_ in actual.items() if hash_ != files[path]]
    return {**files, **actual}, tuple(modified)


def _content_hashes(site: Path, files: Mapping[str, str]) -> dict[str, str]:
    """The hashes of the contents, by path; a file whose recorded hash is no SHA-256 is left out."""
    from concurrent.futures import ThreadPoolExecutor

    paths = [path for path, recorded in files.items() if is_comparable(recorded)]
    # Hashing a file releases the interpreter's lock.
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        hashes = pool.map(lambda path: _content_hash(site / path), paths)
        return dict(zip(paths, hashes, strict=True))


def _content_hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return content_hash(hashlib.file_digest(file, "sha256").digest())
    except FileNotFoundError:
        return _MISSING
    except OSError as error:
        return f"unreadable: {error.strerror}"


def _metadata(folder: Path) -> PackageMetadata:
    # An egg-info of distutils is a file itself.
    for path in (folder / "METADATA", folder / "PKG-INFO", folder):
        text = _text(path, _METADATA_BYTES)
        if text:
            return parse_metadata(text)
    return PackageMetadata()


def _origin(folder: Path) -> dict[str, Any]:
    """direct_url.json (PEP 610); empty for an installation from an index."""
    text = _text(folder / "direct_url.json", _METADATA_BYTES)
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _installer(folder: Path) -> str | None:
    """The program that has installed it: one word."""
    text = _text(folder / "INSTALLER", 200).strip()
    return text if _PROGRAM.fullmatch(text) else None


def _table(origin: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = origin.get(name)
    return value if isinstance(value, dict) else {}


def _checked_out(origin: Mapping[str, Any]) -> str | None:
    """The commit of the checkout that an editable installation leads to."""
    url = urlsplit(str(origin.get("url", "")))
    if url.scheme != "file":
        return None
    return commit_of(Path(unquote(url.path)))


def _text(path: Path, limit: int) -> str:
    try:
        with path.open("rb") as file:
            return file.read(limit).decode(errors="replace")
    except OSError:
        return ""
