# SPDX-License-Identifier: Apache-2.0
"""A store in a directory: objects whole or absent, and who else can write to it."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.store.directory_store import DirectoryStore, is_remote, open_store
from ci_doctor.store.objects import TEMPORARY, DamagedError, StoreError, StoreFailure
from tests.support.ranges import range_of

NAME = "v1/local/packs/ab/abcd.pack"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_a_file_system_without_hard_links_has_whole_objects_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    store = DirectoryStore(folder)

    assert (store.create(NAME, b"first"), store.create(NAME, b"second")) == (True, False)
    assert [entry.name for entry in store.names("")] == [NAME]


def test_a_range_is_read_whole_or_not_at_all(folder: Path) -> None:
    store = DirectoryStore(folder)
    store.create(NAME, b"0123456789")

    assert range_of(store, NAME, 3, 4) == b"3456"
    with pytest.raises(StoreError, match="ends before byte 12"):
        range_of(store, NAME, 8, 4)
    with pytest.raises(StoreError, match="No such file"):
        range_of(store, "v1/none", 0, 1)


@pytest.mark.parametrize("name", ["../x", "v1/../x", "/etc/passwd", "v1//x", "v1/.x", "v1/x\0", ""])
def test_no_name_leads_out_of_the_store(folder: Path, name: str) -> None:
    store = DirectoryStore(folder)

    for act in (
        lambda: store.read(name, 9),
        lambda: store.create(name, b""),
        lambda: store.remove(name),
    ):
        with pytest.raises(DamagedError):
            act()


def test_a_planted_link_or_pipe_is_not_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    store = DirectoryStore(folder)
    store.create(NAME, b"content")
    (folder / "v1/local/link").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "v1/local/pipe")

    for name in ("v1/local/link", "v1/local/pipe"):
        with pytest.raises(StoreError):
            store.read(name, 100)
    assert [entry.name for entry in store.names("v1/")] == [NAME]


def test_what_takes_the_place_of_a_manifest_is_no_store_of_nothing(
    folder: Path, tmp_path: Path
) -> None:
    store = DirectoryStore(folder)
    names = [f"v1/local/manifests/x/{kind}.json.zst" for kind in ("dir", "link", "loose", "pipe")]
    for name in names[1:]:
        store.create(name, b"content")
        (folder / name).unlink()
    (folder / names[0]).mkdir()
    (folder / names[1]).symlink_to(tmp_path)
    (folder / names[2]).symlink_to("nowhere")
    os.mkfifo(folder / names[3])

    assert sorted(entry.name for entry in store.names("v1/local/")) == names
    for name in names:
        with pytest.raises(DamagedError):
            store.read(name, 100)
        store.remove(name)
    assert [entry.name for entry in store.names("v1/")] == names[:1]


def test_a_write_that_was_cut_off_has_a_name_of_its_own(folder: Path) -> None:
    store = DirectoryStore(folder)
    store.create(NAME, b"content")
    leftover = folder / "v1/local/packs/ab" / f"{TEMPORARY}0123"
    leftover.write_bytes(b"half")

    names = sorted(entry.name for entry in store.names("v1/"))

    assert names == [str(leftover.relative_to(folder)), NAME]
    store.remove(names[0])
    assert not leftover.exists()


def test_an_object_that_exists_counts_as_used_now(folder: Path) -> None:
    store = DirectoryStore(folder)
    store.create(NAME, b"content")
    os.utime(folder / NAME, (1_000, 1_000))

    store.create(NAME, b"content")

    assert [entry.modified_ms > 1_000_000 for entry in store.names("v1/")] == [True]


@pytest.mark.parametrize(
    ("mode", "shared"),
    [(0o700, False), (0o755, False), (0o775, True), (0o757, True), (0o1777, True)],
)
def test_a_directory_is_shared_if_others_can_write_to_it(
    folder: Path, mode: int, shared: bool
) -> None:
    folder.mkdir()
    folder.chmod(mode)

    assert DirectoryStore(folder).shared is shared


def test_a_directory_is_shared_if_others_can_replace_it(folder: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    assert DirectoryStore(folder).shared
    tmp_path.chmod(0o1777)
    assert not DirectoryStore(folder).shared


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_directory_of_another_user_is_shared(folder: Path) -> None:
    folder.mkdir()
    os.chown(folder, 65534, 65534)

    assert DirectoryStore(folder).shared


def test_folders_are_as_open_as_the_store_and_objects_to_all_whatever_the_umask(
    folder: Path,
) -> None:
    folder.mkdir()
    folder.chmod(0o770)
    former = os.umask(0o077)
    try:
        DirectoryStore(folder).create(NAME, b"content")
    finally:
        os.umask(former)

    assert (folder / "v1/local").stat().st_mode & 0o777 == 0o770
    assert (folder / NAME).stat().st_mode & 0o777 == 0o644


def test_a_folder_that_vanishes_while_it_is_empty_is_made_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = (folder / NAME).parent
    mkdir = os.mkdir
    vanished: list[str | Path] = []

    def vanishing(path: str | Path, mode: int = 0o777) -> None:
        mkdir(path, mode)
        if Path(path) == place and len(vanished) < 3:
            place.rmdir()
            vanished.append(path)

    monkeypatch.setattr(os, "mkdir", vanishing)

    assert DirectoryStore(folder).create(NAME, b"content")
    assert len(vanished) == 3
    assert (folder / NAME).read_bytes() == b"content"


def test_a_store_that_is_never_made_is_given_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def refuse(path: object, *_: object) -> None:
        asked.append(path)
        assert len(asked) < 10_000
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    monkeypatch.setattr(os, "mkdir", refuse)

    with pytest.raises(StoreError, match="No such file or directory"):
        DirectoryStore(Path("/proc/ci-doctor-store")).create(NAME, b"content")


def test_only_folders_that_may_hold_such_names_are_looked_into(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DirectoryStore(folder)
    for name in ("wanted-1/x", "wanted-2", "others/y"):
        store.create(name, b"")
    scandir = os.scandir
    looked: list[str] = []

    def noting(path: Path) -> Iterator[os.DirEntry[str]]:
        looked.append(Path(path).name)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noting)

    assert sorted(each.name for each in store.names("wanted-")) == ["wanted-1/x", "wanted-2"]
    assert looked == [folder.name, "wanted-1"]


def test_a_file_in_the_place_of_a_store_is_no_empty_store(folder: Path) -> None:
    folder.write_text("")

    with pytest.raises(StoreError, match="Not a directory"):
        list(DirectoryStore(folder).names(""))


def test_a_full_disk_leaves_no_object_and_nothing_unfinished(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(StoreError, match="No space left") as raised:
        DirectoryStore(folder).create(NAME, b"content")

    assert raised.value.reason is StoreFailure.FULL
    assert list(DirectoryStore(folder).names("")) == []


def test_a_directory_is_named_by_path_or_file_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    for address in ("/a/b%20c", "file:///a/b%2520c", "file://localhost/a/b%2520c"):
        assert open_store(address, {}, timeout_s=1).location == "/a/b%20c"
    assert open_store("cache", {}, timeout_s=1).location == str(tmp_path / "cache")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "http://example.com/x",
        "https://example.com/x",
        "ftp://x",
        "memory://",
        "S3 ://x",
        "s3:/user:hunter2@bucket",
        "s3:bucket/x",
        "gs//bucket",
        "az:/account/container?sig=hunter2",
        "file:/x",
        "file://host/x",
        "s3://",
        "gs:///x",
        "az://account",
        "s3://user:hunter2@bucket/x",
        "az://account/container?sig=hunter2",
    ],
)
def test_any_other_address_is_refused_without_its_secrets(address: str) -> None:
    with pytest.raises(UsageError) as raised:
        open_store(address, {}, timeout_s=1)

    assert "hunter2" not in f"{raised.value.message} {raised.value.hint}"


def test_a_directory_needs_no_network() -> None:
    assert not any(map(is_remote, ("x", "file:///x")))
    assert all(map(is_remote, ("s3://b", "gs://b", "az://a/c")))
