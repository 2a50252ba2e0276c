# SPDX-License-Identifier: Apache-2.0
import gzip
import os
from pathlib import Path

import pytest

from ci_doctor.correctness.archive.archive import Archive
from tests.unit.correctness.archived import IDENTITY, IDS, kept


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 5)


def _cut_in_the_first_line(path: Path) -> None:
    os.truncate(path, 40)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _foreign(path: Path) -> None:
    path.write_bytes(gzip.compress(b'{"format": "something else"}\n'))


def _no_gzip(path: Path) -> None:
    path.write_bytes(b"hello" * 100)


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(content)


def _flipped_in_the_first_line(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[60] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        _cut,
        _cut_in_the_first_line,
        _empty,
        _foreign,
        _no_gzip,
        _flipped,
        _flipped_in_the_first_line,
    ],
    ids=lambda function: function.__name__,
)
def test_a_damaged_file_is_told_and_not_used(
    archive: Archive, tmp_path: Path, damage: object
) -> None:
    good, bad = kept(archive, tmp_path), kept(archive, tmp_path)
    assert callable(damage)
    damage(bad)

    found = archive.find(IDENTITY, IDS, 2)

    assert [start.path for start in found.starts] == [good]
    (told,) = found.skipped
    assert told.startswith(f"{bad}: it")
