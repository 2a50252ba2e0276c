"""Which saved cache is restored if the best one is damaged."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.caches.families import FAMILIES
from ci_doctor.caches.judge import Tiers
from ci_doctor.caches.restore import RestoreWork, restore_all
from ci_doctor.caches.targets import IdentifiedCache, tier_of
from ci_doctor.caches.trusted_store import (
    TrustedStore,
    forget_receipt,
    keep_receipt,
    machine_directory,
    read_receipt,
    receipts_of,
)
from ci_doctor.identity.identity import Identity
from ci_doctor.model.facts.cache import RestoredCache
from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.objects import StoreError
from ci_doctor.store.save import SaveRules, save_tree
from ci_doctor.store.transfer import Deadline
from ci_doctor.store.trust import TrustPolicy, TrustRules
from tests.support.saved_manifests import receipt
from tests.support.saved_trees import header

HERE = Identity.of({"package.triton": "3.9.0"})
NONE = Identity.of({})
NOW = 1_795_000_000_000


class Machine:
    """Two caches of Triton that were saved one after the other, and a directory to restore them to."""

    def __init__(self, folder: Path, saved: Path) -> None:
        self.folder = folder
        shutil.copytree(saved, folder / "store")
        self.store = DirectoryStore(folder / "store")
        self.cache = IdentifiedCache(
            family=FAMILIES["triton"],
            directory=folder / "cache",
            tiers=Tiers(hard=HERE, path=NONE, soft=NONE),
        )
        (folder / "state").mkdir(mode=0o700)

    @property
    def newest_pack(self) -> Path:
        return max(self.packs(), key=lambda pack: pack.stat().st_mtime_ns)

    def packs(self) -> list[Path]:
        return list(self.store.directory.rglob("*.pack"))

    def restore(self) -> RestoredCache:
        rules = TrustRules(policy=TrustPolicy.LOCAL, allowed=None, now_ms=NOW)
        work = RestoreWork(
            caches=(self.cache,),
            source=TrustedStore(store=self.store, scopes=("local",), rules=rules),
            deadline=Deadline(60),
            state=self.folder / "state",
            job=None,
        )
        (result,) = restore_all(work, lambda _step: None)
        return result

    def restored(self) -> str:
        return (self.cache.directory / "kernel" / "a.cubin").read_text()


def save(folder: Path, content: str, created_ms: int) -> None:
    tree = folder / content
    (tree / "kernel").mkdir(parents=True)
    (tree / "kernel" / "a.cubin").write_text(content)
    tiers = {"hard": tier_of(HERE), "path": tier_of(NONE), "soft": tier_of(NONE)}
    saved = replace(header(tree), created_ms=created_ms, expires_ms=NOW * 2, **tiers)
    rules = SaveRules(scope="local", deadline=Deadline(60))
    save_tree(DirectoryStore(folder / "store"), tree, saved, rules)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    save(folder, "old", NOW - 2000)
    save(folder, "new", NOW - 1000)
    return folder / "store"


@pytest.fixture
def machine(tmp_path: Path, saved: Path) -> Machine:
    return Machine(tmp_path, saved)


def flip(pack: Path) -> None:
    content = bytearray(pack.read_bytes())
    content[-1] ^= 1
    pack.write_bytes(content)


def cut(pack: Path) -> None:
    pack.write_bytes(pack.read_bytes()[:-1])


def pipe(pack: Path) -> None:
    pack.unlink()
    os.mkfifo(pack)


def folder(pack: Path) -> None:
    pack.unlink()
    pack.mkdir()


def test_the_newest_is_restored(machine: Machine) -> None:
    assert (machine.restore().result, machine.restored()) == ("restored", "new")


@pytest.mark.parametrize("spoil", [flip, cut, Path.unlink, pipe, folder])
def test_an_older_one_stands_in_for_one_that_is_damaged_or_gone(
    machine: Machine, spoil: Callable[[Path], object]
) -> None:
    spoil(machine.newest_pack)

    assert (machine.restore().result, machine.restored()) == ("restored", "old")


@pytest.mark.parametrize("spoil", [flip, cut, Path.unlink, pipe, folder])
def test_where_all_are_damaged_that_is_the_stores_content_and_not_its_reach(
    machine: Machine, spoil: Callable[[Path], object]
) -> None:
    for pack in machine.packs():
        spoil(pack)

    assert machine.restore().result == "refused"
    assert not machine.cache.directory.exists()


def test_a_receipt_is_read_as_it_was_kept(tmp_path: Path) -> None:
    keep_receipt(tmp_path, receipt("/caches/triton"))

    assert read_receipt(tmp_path, "triton", Path("/caches/triton")) == receipt("/caches/triton")


def test_receipts_of_a_family_come_with_the_newest_first(tmp_path: Path) -> None:
    keep_receipt(tmp_path, receipt("/one", installed_ns=1))
    keep_receipt(tmp_path, receipt("/two", installed_ns=2))

    assert [each.root for each in receipts_of(tmp_path, "triton")] == ["/two", "/one"]


def test_a_receipt_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    keep_receipt(tmp_path, receipt("/one"))
    for path in (tmp_path / "receipts").iterdir():
        path.write_bytes(path.read_bytes()[:-9])

    assert read_receipt(tmp_path, "triton", Path("/one")) is None


def test_a_forgotten_receipt_is_gone(tmp_path: Path) -> None:
    keep_receipt(tmp_path, receipt("/one"))

    forget_receipt(tmp_path, "triton", Path("/one"))

    assert receipts_of(tmp_path, "triton") == []


def test_it_is_made_for_this_user_alone(tmp_path: Path) -> None:
    path = machine_directory({"XDG_RUNTIME_DIR": str(tmp_path)})

    assert path == tmp_path / "ci-doctor"
    assert path.stat().st_mode & 0o777 == 0o700


def test_a_link_and_one_that_others_can_write_to_are_refused(tmp_path: Path) -> None:
    (tmp_path / "state").symlink_to(tmp_path)
    tmp_path.chmod(0o777)

    for place, fault in (
        (tmp_path / "state", "is no directory"),
        (tmp_path, "open to other users"),
    ):
        with pytest.raises(StoreError, match=fault):
            machine_directory({"CI_DOCTOR_STATE_DIR": str(place)})
