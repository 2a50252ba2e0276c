# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

from ci_doctor.correctness.archive.archive import Archive
from ci_doctor.correctness.archive.evict import stamp
from ci_doctor.identity.identity import Identity
from ci_doctor.system import clock
from tests.unit.correctness.archived import OLD, kept


def test_what_is_expired_goes(archive: Archive, tmp_path: Path) -> None:
    old, new = kept(archive, tmp_path, recorded_at=OLD), kept(archive, tmp_path)

    assert archive.evict() == (old,)
    assert new.exists()
    assert not old.exists()


def test_an_identity_without_starts_goes_with_its_directory(
    archive: Archive, tmp_path: Path
) -> None:
    old = kept(archive, tmp_path, recorded_at=OLD)

    archive.evict()

    assert list(archive.directory.iterdir()) == []
    assert not old.parent.exists()


def test_the_oldest_go_until_the_archive_is_below_its_limit(
    archive: Archive, tmp_path: Path
) -> None:
    year = int(clock.timestamp()[:4]) + 1
    paths = [
        kept(
            archive,
            tmp_path,
            Identity.of({"driver": str(month % 2)}),
            recorded_at=f"{year}-{month:02}-01T00:00:00Z",
        )
        for month in range(1, 9)
    ]
    size = paths[0].stat().st_size
    whole = sum(path.stat().st_size for path in archive.directory.rglob("*") if path.is_file())
    archive.limit = whole // 2

    gone = archive.evict()

    left = sum(path.stat().st_size for path in archive.directory.rglob("*") if path.is_file())
    assert left <= archive.limit < left + size + 100
    assert list(gone) == paths[: len(gone)]
    assert all(path.exists() for path in paths[len(gone) :])


def test_files_of_others_are_never_touched(archive: Archive, tmp_path: Path) -> None:
    own = kept(archive, tmp_path, recorded_at=OLD)
    outside = tmp_path / "outside"
    outside.mkdir()
    others = [
        archive.directory / "README.md",
        archive.directory / f"start-{stamp(OLD)}-{'0' * 16}.jsonl.gz",
        own.parent / "notes.txt",
        own.parent / "start-2020.jsonl.gz",
        outside / f"start-{stamp(OLD)}-{'0' * 16}.jsonl.gz",
    ]
    for other in others:
        other.write_text("mine")
    (archive.directory / f"identity-{'a' * 64}").symlink_to(outside)
    archive.limit = 0

    assert archive.evict() == (own,)
    assert [other.read_text() for other in others] == ["mine"] * 5


def test_what_a_killed_writer_left_goes_after_an_hour_and_not_before(
    archive: Archive, tmp_path: Path
) -> None:
    kept(archive, tmp_path)
    torn = [archive.directory / f".start-{name}.tmp" for name in ("abcdefgh", "ijklmnop")]
    for path in torn:
        path.write_text("")
    os.utime(torn[0], (0, 0))

    archive.evict()

    assert [path.exists() for path in torn] == [False, True]
