# SPDX-License-Identifier: Apache-2.0
"""Reads site directories: every installed distribution, without importing or starting anything."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from ci_doctor.drift.metadata import PackageMetadata, parse_metadata
from ci_doctor.drift.record import content_hash, digest_of, is_comparable, recorded_files
from ci_doctor.drift.snapshot import PackageSnapshot
from ci_doctor.identity.libraries import commit_of
from ci_doctor.identity.library_names import normal
from ci_doctor.identity.origin import is_editable, read_origin, source_directory, table_of

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
    origin = read_origin(place.folder)
    editable = is_editable(origin)
    commit = table_of(origin, "vcs_info").get("commit_id")
    if editable:
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
        is_editable=editable,
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


def _installer(folder: Path) -> str | None:
    """The program that has installed it: one word."""
    text = _text(folder / "INSTALLER", 200).strip()
    if _PROGRAM.fullmatch(text) is None:
        return None
    return text


def _checked_out(origin: Mapping[str, Any]) -> str | None:
    """The commit of the checkout that an editable installation leads to."""
    source = source_directory(origin)
    if source is None:
        return None
    return commit_of(source)


def _text(path: Path, limit: int) -> str:
    try:
        with path.open("rb") as file:
            return file.read(limit).decode(errors="replace")
    except OSError:
        return ""
