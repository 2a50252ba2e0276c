import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.store import restore as staging
from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.manifest import Manifest
from ci_doctor.store.objects import DamagedError, LimitError, StoreError, StoreFailure, StoreLimits
from ci_doctor.store.plan import Merge
from ci_doctor.store.restore import Installation, RestoreRules, restore_tree
from ci_doctor.store.transfer import Deadline
from ci_doctor.system.files.own_directory import own_directory
from tests.support.saved_trees import (
    LONG_AGO_NS,
    content_of,
    plant,
    restore,
    save,
    saved_manifest,
)

FILES = {"k1/a.cubin": b"first" * 50, "k1/a.json": b'{"at": "/old"}', "k2/empty": b"", "top": b"t"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    folder = tmp_path_factory.mktemp("saved")
    tree = plant(folder / "tree", FILES)
    (tree / "k1/a.cubin").chmod(0o4777)
    return folder / "store", saved_manifest(DirectoryStore(folder / "store"), tree)


@pytest.fixture
def store(tmp_path: Path, saved: tuple[Path, Manifest]) -> DirectoryStore:
    shutil.copytree(saved[0], tmp_path / "store")
    return DirectoryStore(tmp_path / "store")


@pytest.fixture
def manifest(saved: tuple[Path, Manifest], store: DirectoryStore) -> Manifest:
    assert store.directory.is_dir()
    return saved[1]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place" / "cache"


def rules(**fields: object) -> RestoreRules:
    return replace(RestoreRules(deadline=Deadline(60)), **fields)


def test_an_absent_target_comes_into_being_whole(
    store: DirectoryStore, manifest: Manifest, target: Path
) -> None:
    result = restore(store, manifest, target)

    assert content_of(target) == FILES
    assert (result.files, result.installed) == (4, Installation.RENAME)
    assert [path.name for path in target.parent.iterdir()] == ["cache"]


def test_times_are_kept_to_the_nanosecond_and_modes_are_masked(
    store: DirectoryStore, manifest: Manifest, target: Path
) -> None:
    restore(store, manifest, target)

    status = (target / "k1/a.cubin").stat()
    assert status.st_mtime_ns == LONG_AGO_NS
    assert status.st_mode & 0o7777 == 0o755
    assert (target / "top").stat().st_mode & 0o7777 == 0o644


def test_files_that_exist_are_not_overwritten(
    store: DirectoryStore, manifest: Manifest, target: Path
) -> None:
    plant(target, {"k1/a.cubin": b"mine", "own": b"mine"})

    result = restore(store, manifest, target)

    assert content_of(target) == {**FILES, "k1/a.cubin": b"mine", "own": b"mine"}
    assert (result.files, result.kept_existing, result.installed) == (3, 1, Installation.MERGE)


def test_a_directory_that_exists_is_kept_whole(
    store: DirectoryStore, manifest: Manifest, target: Path
) -> None:
    plant(target, {"k1/build.ninja": b"mine"})

    restore_tree(store, manifest, target, rules(merge=Merge.WHOLE_DIRECTORIES))

    assert content_of(target) == {"k1/build.ninja": b"mine", "k2/empty": b"", "top": b"t"}


def test_a_second_restore_fetches_nothing(
    store: DirectoryStore, manifest: Manifest, target: Path
) -> None:
    restore(store, manifest, target)

    again = restore(store, manifest, target)

    assert (again.files, again.fetched_bytes, again.kept_existing) == (0, 0, 4)


def test_a_rewritten_file_has_its_own_time_so_that_a_save_reads_it(
    store: DirectoryStore, manifest: Manifest, target: Path
) -> None:
    def rewrite(path: str, content: bytes) -> bytes:
        return content.replace(b"/old", b"/new") if path.endswith(".json") else content

    restore_tree(store, manifest, target, rules(rewrite=rewrite))

    assert (target / "k1/a.json").read_bytes() == b'{"at": "/new"}'
    assert (target / "k1/a.cubin").stat().st_mtime_ns == LONG_AGO_NS
    assert save(store, target, manifest).new_bytes == len(FILES["k1/a.json"])


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
    store: DirectoryStore,
    manifest: Manifest,
    target: Path,
    spoil: Callable[[Path], object],
    reason: StoreFailure,
    exists: bool,
) -> None:
    if exists:
        plant(target, {"own": b"mine"})
    before = content_of(target.parent)
    spoil(first_pack(store))

    with pytest.raises(StoreError) as raised:
        restore(store, manifest, target)

    assert raised.value.reason is reason
    assert content_of(target.parent) == before
    assert len(list(target.parent.iterdir())) == exists


def test_a_frame_whose_manifest_lies_about_its_size_is_refused(
    store: DirectoryStore, manifest: Manifest, target: Path
) -> None:
    (frame, *rest) = manifest.frames
    wider = replace(manifest, frames=(replace(frame, raw_bytes=frame.raw_bytes + 1), *rest))

    with pytest.raises(DamagedError):
        restore(store, wider, target)

    assert not target.exists()


def test_a_manifest_above_a_limit_is_refused_before_anything_is_fetched(
    tmp_path: Path, manifest: Manifest, target: Path
) -> None:
    empty = DirectoryStore(tmp_path / "none")

    with pytest.raises(LimitError):
        restore_tree(empty, manifest, target, rules(limits=StoreLimits(files=3)))


def test_a_link_in_the_target_leads_nowhere(
    tmp_path: Path, store: DirectoryStore, manifest: Manifest, target: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    target.mkdir()
    (target / "k1").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreError, match="k1 is a link or a file"):
        restore(store, manifest, target)

    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_that_is_planted_while_files_are_fetched_leads_nowhere(
    tmp_path: Path, manifest: Manifest, target: Path
) -> None:
    elsewhere = plant(tmp_path / "elsewhere", {"a.json": b"theirs"})
    target.mkdir()

    class Planting(DirectoryStore):
        def read_range(self, name: str, offset: int, buffer: memoryview) -> None:
            if not (target / "k1").is_symlink():
                (target / "k1").symlink_to(elsewhere)
            super().read_range(name, offset, buffer)

    with pytest.raises(StoreError) as raised:
        restore(Planting(tmp_path / "store"), manifest, target)

    assert raised.value.reason is StoreFailure.REFUSED
    assert content_of(elsewhere) == {"a.json": b"theirs"}


def test_a_target_that_appears_meanwhile_is_joined(
    tmp_path: Path, manifest: Manifest, target: Path
) -> None:
    class Faster(DirectoryStore):
        def read_range(self, name: str, offset: int, buffer: memoryview) -> None:
            plant(target, {"top": b"theirs"})
            super().read_range(name, offset, buffer)

    result = restore(Faster(tmp_path / "store"), manifest, target)

    assert content_of(target) == {**FILES, "top": b"theirs"}
    assert (result.installed, result.kept_existing) == (Installation.MERGE, 1)


def test_a_file_in_place_of_the_target_is_refused(
    store: DirectoryStore, manifest: Manifest, target: Path
) -> None:
    target.write_bytes(b"mine")

    with pytest.raises(StoreError):
        restore(store, manifest, target)

    assert target.read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, StoreFailure.FULL),
        (errno.EDQUOT, StoreFailure.FULL),
        (errno.EROFS, StoreFailure.READ_ONLY),
    ],
)
def test_a_disk_that_refuses_a_write_leaves_nothing(
    store: DirectoryStore,
    manifest: Manifest,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    reason: StoreFailure,
) -> None:
    def refuse(_descriptor: int, _part: bytes) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(staging, "_write_all", refuse)

    with pytest.raises(StoreError, match=os.strerror(number)) as raised:
        restore(store, manifest, target)

    assert raised.value.reason is reason
    assert list(target.parent.iterdir()) == []


def test_more_bytes_than_are_free_are_refused_before_the_first_is_fetched(
    tmp_path: Path, manifest: Manifest, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs(target.parent)
    full = os.statvfs_result((*real[:4], 0, *real[5:]))  # f_bavail
    monkeypatch.setattr(os, "statvfs", lambda _path: full)

    with pytest.raises(StoreError, match="free") as raised:
        restore(DirectoryStore(tmp_path / "none"), manifest, target)

    assert raised.value.reason is StoreFailure.FULL
    assert list(target.parent.iterdir()) == []


def test_no_time_left_leaves_nothing(
    store: DirectoryStore, manifest: Manifest, target: Path
) -> None:
    with pytest.raises(StoreError) as raised:
        restore_tree(store, manifest, target, rules(deadline=Deadline(0)))

    assert raised.value.reason is StoreFailure.TIMEOUT
    assert list(target.parent.iterdir()) == []


def test_what_a_killed_restore_left_is_removed_and_what_another_uses_is_not(
    store: DirectoryStore, manifest: Manifest, target: Path
) -> None:
    left = plant(target.parent / "ci-doctor-tmp.restore.abcdefgh", {"tree/a": b"x"})
    with own_directory("restore", target.parent) as used:
        for path in (left, Path(used)):
            os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))

        restore(store, manifest, target)

        assert not left.exists()
        assert Path(used).exists()
