# SPDX-License-Identifier: Apache-2.0

import io
import os
from pathlib import Path

import msgspec
import pytest

from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.objects import LimitError, StoreError, StoreFailure
from ci_doctor.store.save import SaveRules, save_tree
from ci_doctor.store.transfer import Deadline, digest, digest_of_file, running_digest
from tests.support.saved_trees import (
    content_of,
    header,
    manifest_of,
    plant,
    restore,
    save,
    saved_manifest,
)

FILES = {"k1/a.cubin": b"first" * 50, "k1/a.json": b"{}", "k2/empty": b""}


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "store")


def rules(**fields: object) -> SaveRules:
    return msgspec.structs.replace(SaveRules(scope="local", deadline=Deadline(60)), **fields)


def test_nothing_changed_moves_only_a_manifest(tmp_path: Path, store: DirectoryStore) -> None:
    tree = plant(tmp_path / "tree", FILES)
    parent = saved_manifest(store, tree)

    again = save(store, tree, parent)

    assert (again.files, again.new_bytes, again.created) == (3, 0, False)


def test_only_the_changed_file_is_packed_again(tmp_path: Path, store: DirectoryStore) -> None:
    tree = plant(tmp_path / "tree", FILES)
    parent = saved_manifest(store, tree)
    (tree / "k1/a.json").write_bytes(b"{ }")

    manifest = manifest_of(store, save(store, tree, parent))

    assert set(parent.packs) < set(manifest.packs)
    restore(store, manifest, tmp_path / "out")
    assert content_of(tmp_path / "out") == {**FILES, "k1/a.json": b"{ }"}


def test_packs_of_a_scope_that_readers_do_not_trust_are_not_referred_to(
    tmp_path: Path, store: DirectoryStore
) -> None:
    tree = plant(tmp_path / "tree", FILES)
    parent = saved_manifest(store, tree)
    signed = SaveRules(scope="signed", deadline=Deadline(60), parent=parent)

    manifest = manifest_of(store, save_tree(store, tree, header(tree), signed))

    assert {pack.scope for pack in manifest.packs} == {"signed"}


def test_a_file_of_several_frames_comes_back(tmp_path: Path, store: DirectoryStore) -> None:
    noise = os.urandom(3 << 20)
    files = {"large.so": noise + noise + noise, "small": b"x"}
    tree = plant(tmp_path / "tree", files)

    restore(store, saved_manifest(store, tree), tmp_path / "out")

    assert content_of(tmp_path / "out") == files


def test_links_and_fifos_are_left_out_and_named(tmp_path: Path, store: DirectoryStore) -> None:
    tree = plant(tmp_path / "tree", FILES)
    (tree / "link").symlink_to("/etc/passwd")
    (tree / "folder").symlink_to("/etc")
    os.mkfifo(tree / "fifo")

    saved = save(store, tree)

    assert dict(saved.skipped) == {
        "fifo": "is no regular file",
        "folder": "is a symbolic link",
        "link": "is a symbolic link",
    }
    assert saved.files == len(FILES)


def test_a_name_that_readers_refuse_is_left_out(tmp_path: Path, store: DirectoryStore) -> None:
    tree = plant(tmp_path / "tree", {"a": b"1", "A": b"2", "line\nbreak": b"3"})
    (tree / os.fsdecode(b"\xff")).write_bytes(b"4")

    saved = save(store, tree)

    assert saved.files == 1
    assert {path for path, _ in saved.skipped} == {"a", "line\nbreak", "�"}


def test_what_is_excluded_is_not_mentioned(tmp_path: Path, store: DirectoryStore) -> None:
    tree = plant(tmp_path / "tree", {**FILES, "locks/x.lock": b""})

    saved = save_tree(store, tree, header(tree), rules(exclude=lambda path: path == "locks"))

    assert (saved.files, saved.skipped) == (3, ())


class WritingStore(DirectoryStore):
    """Appends to a file of the tree once its pack is written: a process that is still compiling."""

    writes: Path

    def create(self, name: str, *parts: bytes) -> bool:
        if name.endswith(".pack"):
            with self.writes.open("ab") as file:
                file.write(b"more")
        return super().create(name, *parts)


def test_a_file_that_changes_meanwhile_is_left_out_with_its_group(tmp_path: Path) -> None:
    store = WritingStore(tmp_path / "store")
    tree = plant(tmp_path / "tree", FILES)
    store.writes = tree / "k1/a.cubin"

    saved = save_tree(store, tree, header(tree), rules(group=lambda path: path.rpartition("/")[0]))

    assert dict(saved.skipped) == {
        "k1/a.cubin": "changed while it was saved",
        "k1/a.json": "belongs to a file that changed while it was saved",
    }
    assert [entry.path for entry in manifest_of(store, saved).files] == ["k2/empty"]


def test_a_tree_without_files_is_not_saved(tmp_path: Path, store: DirectoryStore) -> None:
    (tmp_path / "tree").mkdir()

    with pytest.raises(StoreError) as raised:
        save(store, tmp_path / "tree")

    assert raised.value.reason is StoreFailure.MISSING
    assert list(store.names("")) == []


@pytest.mark.nightly
def test_a_tree_that_readers_would_refuse_gets_no_manifest(
    tmp_path: Path, store: DirectoryStore
) -> None:
    tree = plant(tmp_path / "tree", {"zeros": b""})
    os.truncate(tree / "zeros", (1 << 30) + (1 << 20))

    with pytest.raises(LimitError, match="above 1:200"):
        save(store, tree)

    assert [each.name for each in store.names("") if "manifests" in each.name] == []


def test_a_tree_of_zeros_is_no_bomb(tmp_path: Path, store: DirectoryStore) -> None:
    tree = plant(tmp_path / "tree", {"zeros": bytes(1 << 20)})

    save(store, tree)

    assert [each.name for each in store.names("") if "manifests" in each.name]


def test_no_time_left_is_a_timeout_without_a_manifest(
    tmp_path: Path, store: DirectoryStore
) -> None:
    tree = plant(tmp_path / "tree", FILES)

    with pytest.raises(StoreError) as raised:
        save_tree(store, tree, header(tree), SaveRules(scope="local", deadline=Deadline(0)))

    assert raised.value.reason is StoreFailure.TIMEOUT
    assert list(store.names("v1/local/manifests")) == []


def test_a_scope_that_leaves_its_place_is_refused(tmp_path: Path, store: DirectoryStore) -> None:
    tree = plant(tmp_path / "tree", FILES)

    with pytest.raises(StoreError):
        save_tree(store, tree, header(tree), SaveRules(scope="../signed", deadline=Deadline(9)))


class SigningStore(DirectoryStore):
    """Remembers the order of names."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.order: list[str] = []

    def create(self, name: str, *parts: bytes) -> bool:
        self.order.append(name)
        return super().create(name, *parts)


class StandInSigner:
    def sign(self, message: bytes) -> str:
        return f"signature of {len(message)} bytes"


def test_a_manifest_appears_after_its_packs_and_its_signature(tmp_path: Path) -> None:
    store = SigningStore(tmp_path / "store")
    tree = plant(tmp_path / "tree", FILES)

    saved = save_tree(store, tree, header(tree), rules(signer=StandInSigner()))

    assert store.order[-2:] == [f"{saved.manifest_name}.sig", saved.manifest_name]
    assert all(name.endswith(".pack") for name in store.order[:-2])


# Of the reference implementation's test vectors: no input, and 1,025 bytes of 0 to 250 over and over.
EMPTY = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
VECTOR = bytes(number % 251 for number in range(1025))
OF_VECTOR = "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"


def test_a_digest_is_blake3_in_hex() -> None:
    assert digest(b"") == EMPTY
    assert digest(VECTOR) == OF_VECTOR


def test_parts_and_a_file_have_the_digest_of_the_whole() -> None:
    running = running_digest()
    running.update(VECTOR[:1000])
    running.update(memoryview(VECTOR)[1000:])

    assert running.hexdigest() == OF_VECTOR
    assert digest_of_file(io.BytesIO(VECTOR)) == OF_VECTOR
