# SPDX-License-Identifier: Apache-2.0
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from ci_doctor.drift.system_packages import parse_apk, parse_dpkg, read_system_packages

DPKG = """Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.2-1
Description: a shell
 Version: 9

Package: gone
Status: deinstall ok config-files
Version: 1

Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36

Package: libc6
Status: install ok installed
Architecture: i386
Version: 2.35
"""
APK = "C:Q1\nP:musl\nV:1.2.5-r0\nA:x86_64\n\nP:zlib\nV:1.3-r2\n"


def rpm_header(name: str, version: str, release: str) -> bytes:
    """A header with three texts (tags 1000 to 1002 of type 6), as rpm keeps it in its database."""
    data = b""
    entries = b""
    for tag, text in ((1000, name), (1001, version), (1002, release)):
        entries += struct.pack(">IIiI", tag, 6, len(data), 1)
        data += text.encode() + b"\0"
    return struct.pack(">II", 3, len(data)) + entries + data


def rpm_database(path: Path, headers: list[bytes]) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE Packages (hnum INTEGER PRIMARY KEY, blob BLOB NOT NULL)")
        database.executemany(
            "INSERT INTO Packages (blob) VALUES (?)", [(each,) for each in headers]
        )
        database.commit()


def test_dpkg_names_what_is_installed_and_not_what_was_removed() -> None:
    assert parse_dpkg(DPKG) == {"bash": "5.2-1", "libc6": "2.36", "libc6:i386": "2.35"}


def test_apk_names_what_is_installed() -> None:
    assert parse_apk(APK) == {"musl": "1.2.5-r0", "zlib": "1.3-r2"}


@pytest.mark.parametrize("place", ["var/lib/rpm", "usr/lib/sysimage/rpm"])
def test_rpm_is_read_from_its_database(tmp_path: Path, place: str) -> None:
    headers = [
        rpm_header("kernel", "6.1", "1"),
        rpm_header("bash", "5.2", "3.el9"),
        rpm_header("kernel", "6.2", "1"),
    ]
    rpm_database(tmp_path / place / "rpmdb.sqlite", headers)

    packages = read_system_packages(tmp_path)

    assert packages.versions == {"bash": "5.2-3.el9", "kernel": "6.1-1 and 6.2-1"}


@pytest.mark.parametrize("header", [b"", b"\0\0\0\x01", rpm_header("a", "1", "1")[:30]])
def test_a_damaged_database_is_unknown(tmp_path: Path, header: bytes) -> None:
    rpm_database(tmp_path / "var/lib/rpm/rpmdb.sqlite", [header])

    packages = read_system_packages(tmp_path)

    assert (packages.versions, packages.unknown is not None) == ({}, True)


def test_an_old_database_of_rpm_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "var/lib/rpm").mkdir(parents=True)
    (tmp_path / "var/lib/rpm/Packages").write_bytes(b"\0")

    assert "only rpm can read" in (read_system_packages(tmp_path).unknown or "")


def test_files_of_a_distribution_are_found_below_its_root(tmp_path: Path) -> None:
    for name, content in (("lib/apk/db/installed", APK), ("var/lib/dpkg/status.d/base", DPKG)):
        path = tmp_path / name.partition("/")[0] / name
        path.parent.mkdir(parents=True)
        path.write_text(content)

    assert read_system_packages(tmp_path / "lib").versions["musl"] == "1.2.5-r0"
    assert read_system_packages(tmp_path / "var").versions["bash"] == "5.2-1"


def test_without_a_database_it_is_unknown(tmp_path: Path) -> None:
    packages = read_system_packages(tmp_path)

    assert packages.unknown == "there is no database of dpkg, apk or rpm"
