# SPDX-License-Identifier: Apache-2.0
"""Reads the databases of dpkg, apk and rpm: which packages of the distribution are installed."""

import struct
from pathlib import Path
from typing import Final

from msgspec import Struct

_DPKG: Final = "var/lib/dpkg/status"
# Of an image without a shell (distroless): one file a package.
_DPKG_PARTS: Final = "var/lib/dpkg/status.d"
_APK: Final = ("lib/apk/db/installed", "usr/lib/apk/db/installed")
_RPM: Final = ("usr/lib/sysimage/rpm/rpmdb.sqlite", "var/lib/rpm/rpmdb.sqlite")
_RPM_OTHER: Final = ("usr/lib/sysimage/rpm/Packages.db", "var/lib/rpm/Packages")
# Tags of a header: https://rpm-software-management.github.io/rpm/manual/tags.html
_NAME: Final = 1000
_VERSION: Final = 1001
_RELEASE: Final = 1002


class SystemPackages(Struct, frozen=True, kw_only=True):
    """Name -> version, by name; `unknown` is the reason if they cannot be read."""

    versions: dict[str, str] = {}
    unknown: str | None = None


def databases(root: Path = Path("/")) -> tuple[Path, ...]:
    """Where the databases of distributions lie, whether they exist or not."""
    return tuple(root / name for name in (_DPKG, _DPKG_PARTS, *_APK, *_RPM, *_RPM_OTHER))


def read_system_packages(root: Path = Path("/")) -> SystemPackages:
    """The packages of the distribution below `root`. Raises nothing."""
    try:
        versions = _versions(root)
    except OSError as error:
        return SystemPackages(unknown=f"{error.filename}: {error.strerror}")
    except ValueError as error:
        return SystemPackages(unknown=str(error))
    if versions is None:
        return SystemPackages(unknown="there is no database of dpkg, apk or rpm")
    if not versions:
        return SystemPackages(unknown="the database of the distribution lists no package")
    return SystemPackages(versions=dict(sorted(versions.items())))


def _versions(root: Path) -> dict[str, str] | None:
    """None without a database. Raises OSError and ValueError for one that cannot be read."""
    if (root / _DPKG).is_file():
        return parse_dpkg((root / _DPKG).read_text(errors="replace"))
    if (root / _DPKG_PARTS).is_dir():
        texts = [path.read_text(errors="replace") for path in (root / _DPKG_PARTS).iterdir()]
        return parse_dpkg("\n\n".join(texts))
    apk = _first_file(root, _APK)
    if apk is not None:
        return parse_apk(apk.read_text(errors="replace"))
    rpm = _first_file(root, _RPM)
    if rpm is not None:
        return _read_rpm(rpm)
    other = _first_file(root, _RPM_OTHER)
    if other is not None:
        raise ValueError(f"{other} is a database of rpm that only rpm can read")
    return None


def _first_file(root: Path, names: tuple[str, ...]) -> Path | None:
    for name in names:
        if (root / name).is_file():
            return root / name
    return None


def parse_dpkg(text: str) -> dict[str, str]:
    """The packages in a status file (dpkg-query(1)); one of several architectures with its own."""
    versions: dict[str, str] = {}
    for paragraph in text.split("\n\n"):
        fields: dict[str, str] = {}
        for line in paragraph.split("\n"):
            key, colon, value = line.partition(": ")
            if colon and key in {"Package", "Status", "Version", "Architecture"}:
                fields[key] = value
        # A removed package may leave its configuration.
        if fields.get("Status", "installed").rpartition(" ")[2] != "installed":
            continue
        name = fields.get("Package", "")
        if name in versions:
            name = f"{name}:{fields.get('Architecture', '')}"
        if name and "Version" in fields:
            versions[name] = fields["Version"]
    return versions


def parse_apk(text: str) -> dict[str, str]:
    """The packages in apk's file (P: and V:, apk-package(5))."""
    versions: dict[str, str] = {}
    name = ""
    for line in text.split("\n"):
        if line.startswith("P:"):
            name = line[2:]
        elif line.startswith("V:") and name:
            versions[name] = line[2:]
    return versions


def _read_rpm(path: Path) -> dict[str, str]:
    import sqlite3
    from contextlib import closing

    # Immutable: nothing is written beside it, which another user than root could not do.
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            rows = database.execute("SELECT blob FROM Packages").fetchall()
        return _rpm_versions([row[0] for row in rows])
    except (sqlite3.Error, struct.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _rpm_versions(headers: list[bytes]) -> dict[str, str]:
    versions: dict[str, str] = {}
    for header in headers:
        fields = parse_rpm_header(header)
        name = fields.get(_NAME, "")
        version = f"{fields.get(_VERSION, '')}-{fields.get(_RELEASE, '')}"
        if name in versions and version not in versions[name].split(" and "):
            # Several kernels may be installed at once.
            version = f"{versions[name]} and {version}"
        if name:
            versions[name] = version
    return versions


def parse_rpm_header(header: bytes) -> dict[int, str]:
    """Name, version and release of a header by their tags. Raises struct.error for a damaged one.

    Two numbers (entries, bytes of data), then the entries (tag, type, offset, count), then the data:
    https://rpm-software-management.github.io/rpm/manual/format_header.html
    """
    count, _ = struct.unpack_from(">II", header)
    data = 8 + 16 * count
    fields: dict[int, str] = {}
    for index in range(count):
        tag, _, offset, _ = struct.unpack_from(">IIiI", header, 8 + 16 * index)
        if tag in {_NAME, _VERSION, _RELEASE}:
            start = data + offset
            fields[tag] = header[start : header.index(b"\0", start)].decode(errors="replace")
    return fields
