# SPDX-License-Identifier: Apache-2.0
"""A saved tree in its place: whole, beside what is there, or not at all."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from ci_doctor.store import restore as staging
from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.manifest import Manifest
from ci_doctor.store.objects import DamagedError, LimitError, StoreError, StoreFailure, StoreLimits
from ci_doctor.store.plan import Merge, PresentFile, default_group, plan_merge
from ci_doctor.store.restore import Installation, RestoredTree, RestoreRules, restore_tree
from ci_doctor.store.transfer import Deadline
from ci_doctor.system.files.access import own_directory
from tests.support.saved_trees import LONG_AGO_NS, content_of, plant, save, saved_manifest
from tests.unit.store.test_manifest import ENTRY

FILES = {"k1/a.cubin": b"first" * 50, "k1/a.json": b'{"at": "/old"}', "k2/empty": b"", "top": b"t"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    folder = tmp_path_factory.mktemp("saved")
    tree = plant(folder / "tree", FILES)
    (tree / "k1/a.cubin").chmod(0o4777)
    return folder / "store", saved_manifest(DirectoryStore(folder / "store"), tree)


class Place(NamedTuple):
    """A store with one saved tree, and a place for it."""

    store: DirectoryStore
    manifest: Manifest
    target: Path

    def restore(self, store: DirectoryStore | None = None, **changes: object) -> RestoredTree:
        rules = replace(RestoreRules(deadline=Deadline(60)), **changes)
        return restore_tree(store or self.store, self.manifest, self.target, rules)


@pytest.fixture
def place(tmp_path: Path, saved: tuple[Path, Manifest]) -> Place:
    shutil.copytree(saved[0], tmp_path / "store")
    (tmp_path / "place").mkdir()
    return Place(DirectoryStore(tmp_path / "store"), saved[1], tmp_path / "place" / "cache")


def test_an_absent_target_comes_into_being_whole(place: Place) -> None:
    result = place.restore()

    assert content_of(place.target) == FILES
    assert (result.files, result.installed) == (4, Installation.RENAME)
    assert [path.name for path in place.target.parent.iterdir()] == ["cache"]


def test_times_are_kept_to_the_nanosecond_and_modes_are_masked(place: Place) -> None:
    place.restore()

    status = (place.target / "k1/a.cubin").stat()
    assert status.st_mtime_ns == LONG_AGO_NS
    assert status.st_mode & 0o7777 == 0o755
    assert (place.target / "top").stat().st_mode & 0o7777 == 0o644


def test_files_that_exist_are_not_overwritten(place: Place) -> None:
    plant(place.target, {"k1/a.cubin": b"mine", "own": b"mine"})

    result = place.restore()

    assert content_of(place.target) == {**FILES, "k1/a.cubin": b"mine", "own": b"mine"}
    assert (result.files, result.kept_existing, result.installed) == (3, 1, Installation.MERGE)


def test_a_directory_that_exists_is_kept_whole(place: Place) -> None:
    plant(place.target, {"k1/build.ninja": b"mine"})

    place.restore(merge=Merge.WHOLE_DIRECTORIES)

    assert content_of(place.target) == {"k1/build.ninja": b"mine", "k2/empty": b"", "top": b"t"}


def test_a_second_restore_fetches_nothing(place: Place) -> None:
    place.restore()

    again = place.restore()

    assert (again.files, again.fetched_bytes, again.kept_existing) == (0, 0, 4)


def test_a_rewritten_file_has_its_own_time_so_that_a_save_reads_it(place: Place) -> None:
    def rewrite(path: str, content: bytes) -> bytes:
        return content.replace(b"/old", b"/new") if path.endswith(".json") else content

    place.restore(rewrite=rewrite)

    assert (place.target / "k1/a.json").read_bytes() == b'{"at": "/new"}'
    assert (place.target / "k1/a.cubin").stat().st_mtime_ns == LONG_AGO_NS
    assert save(place.store, place.target, place.manifest).new_bytes == len(FILES["k1/a.json"])


def first_pack(store: DirectoryStore) -> Path:
    return next(iter(store.directory.rglob("*.pack")))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (flip, StoreFailure.DAMAGED),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), StoreFailure.DAMAGED),
        (lambda path: path.write_bytes(b""), StoreFailure.DAMAGED),
        (lambda path: path.unlink(), StoreFailure.MISSING),
    ],
)
@pytest.mark.parametrize("exists", [False, True])
def test_a_pack_that_is_not_what_was_saved_leaves_nothing(
    spoil: Callable[[Path], object], reason: StoreFailure, exists: bool, place: Place
) -> None:
    if exists:
        plant(place.target, {"own": b"mine"})
    before = content_of(place.target.parent)
    spoil(first_pack(place.store))

    with pytest.raises(StoreError) as raised:
        place.restore()

    assert raised.value.reason is reason
    assert content_of(place.target.parent) == before
    assert len(list(place.target.parent.iterdir())) == exists


def test_a_frame_whose_manifest_lies_about_its_size_is_refused(place: Place) -> None:
    (frame, *rest) = place.manifest.frames
    wider = replace(place.manifest, frames=(replace(frame, raw_bytes=frame.raw_bytes + 1), *rest))

    with pytest.raises(DamagedError):
        place._replace(manifest=wider).restore()

    assert not place.target.exists()


def test_a_manifest_above_a_limit_is_refused_before_anything_is_fetched(
    tmp_path: Path, place: Place
) -> None:
    empty = DirectoryStore(tmp_path / "none")

    with pytest.raises(LimitError):
        place.restore(empty, limits=StoreLimits(files=3))


def test_a_link_in_the_target_leads_nowhere(tmp_path: Path, place: Place) -> None:
    (tmp_path / "elsewhere").mkdir()
    place.target.mkdir()
    (place.target / "k1").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreError, match="k1 is a link or a file"):
        place.restore()

    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_that_is_planted_while_files_are_fetched_leads_nowhere(
    tmp_path: Path, place: Place
) -> None:
    elsewhere = plant(tmp_path / "elsewhere", {"a.json": b"theirs"})
    place.target.mkdir()

    class Planting(DirectoryStore):
        def read_range(self, name: str, offset: int, buffer: memoryview) -> None:
            if not (place.target / "k1").is_symlink():
                (place.target / "k1").symlink_to(elsewhere)
            super().read_range(name, offset, buffer)

    with pytest.raises(StoreError) as raised:
        place.restore(Planting(tmp_path / "store"))

    assert raised.value.reason is StoreFailure.REFUSED
    assert content_of(elsewhere) == {"a.json": b"theirs"}


def test_a_target_that_appears_meanwhile_is_joined(tmp_path: Path, place: Place) -> None:
    class Faster(DirectoryStore):
        def read_range(self, name: str, offset: int, buffer: memoryview) -> None:
            plant(place.target, {"top": b"theirs"})
            super().read_range(name, offset, buffer)

    result = place.restore(Faster(tmp_path / "store"))

    assert content_of(place.target) == {**FILES, "top": b"theirs"}
    assert (result.installed, result.kept_existing) == (Installation.MERGE, 1)


def test_a_file_in_place_of_the_target_is_refused(place: Place) -> None:
    place.target.write_bytes(b"mine")

    with pytest.raises(StoreError):
        place.restore()

    assert place.target.read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, StoreFailure.FULL),
        (errno.EDQUOT, StoreFailure.FULL),
        (errno.EROFS, StoreFailure.READ_ONLY),
    ],
)
def test_a_disk_that_refuses_a_write_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, number: int, reason: StoreFailure, place: Place
) -> None:
    def refuse(_descriptor: int, _part: bytes) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(staging, "_write_all", refuse)

    with pytest.raises(StoreError, match=os.strerror(number)) as raised:
        place.restore()

    assert raised.value.reason is reason
    assert list(place.target.parent.iterdir()) == []


def test_more_bytes_than_are_free_are_refused_before_the_first_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    real = os.statvfs(place.target.parent)
    full = os.statvfs_result((*real[:4], 0, *real[5:]))  # f_bavail
    monkeypatch.setattr(os, "statvfs", lambda _path: full)

    with pytest.raises(StoreError, match="free") as raised:
        place.restore(DirectoryStore(tmp_path / "none"))

    assert raised.value.reason is StoreFailure.FULL
    assert list(place.target.parent.iterdir()) == []


def test_no_time_left_leaves_nothing(place: Place) -> None:
    with pytest.raises(StoreError) as raised:
        place.restore(deadline=Deadline(0))

    assert raised.value.reason is StoreFailure.TIMEOUT
    assert list(place.target.parent.iterdir()) == []


def test_what_a_killed_restore_left_is_removed_and_what_another_uses_is_not(place: Place) -> None:
    left = plant(place.target.parent / "ci-doctor-tmp.restore.abcdefgh", {"tree/a": b"x"})
    with own_directory("restore", place.target.parent) as used:
        for path in (left, Path(used)):
            os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))

        place.restore()

        assert not left.exists()
        assert Path(used).exists()


SAME = PresentFile(bytes=ENTRY.bytes, mtime_ns=ENTRY.mtime_ns)
OTHER = PresentFile(bytes=ENTRY.bytes, mtime_ns=2)
ENTRIES = [replace(ENTRY, path=path) for path in ("k1/a", "k1/b", "k2/a", "top")]


def planned(merge: Merge, present: dict[str, PresentFile]) -> tuple[set[str], set[str], int]:
    plan = plan_merge(ENTRIES, merge, default_group(merge), present)
    return {entry.path for entry in plan.files}, set(plan.directories), plan.kept_existing


@pytest.mark.parametrize(
    ("merge", "present", "files", "directories", "kept"),
    [
        (Merge.UNION, {}, {"k1/a", "k1/b", "k2/a", "top"}, set(), 0),
        (Merge.UNION, {"k1/a": OTHER}, {"k1/b", "k2/a", "top"}, set(), 1),
        (Merge.LAST_WRITER, {"k1/a": OTHER}, {"k2/a", "top"}, set(), 2),
        (Merge.LAST_WRITER, {"k1/a": SAME}, {"k1/b", "k2/a", "top"}, set(), 1),
        (Merge.WHOLE_DIRECTORIES, {}, {"top"}, {"k1", "k2"}, 0),
        (Merge.WHOLE_DIRECTORIES, {"k1": OTHER}, {"top"}, {"k2"}, 2),
        (Merge.WHOLE_DIRECTORIES, {"k1": OTHER, "k1/a": SAME}, {"top"}, {"k2"}, 2),
        (Merge.WHOLE_DIRECTORIES, {"top": OTHER}, set(), {"k1", "k2"}, 1),
    ],
)
def test_a_group_joins_whole_or_not_at_all(
    merge: Merge,
    present: dict[str, PresentFile],
    files: set[str],
    directories: set[str],
    kept: int,
) -> None:
    assert planned(merge, present) == (files, directories, kept)
