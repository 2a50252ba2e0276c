"""Garbage is what no manifest needs, and has not needed for the whole grace."""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.model.facts.cache import CollectCacheFacts
from ci_doctor.store.collect_garbage import GarbageRules, collect_garbage
from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.manifest import PackReference, pack_name, signature_name
from ci_doctor.store.objects import TEMPORARY, StoredObject, StoreError, StoreFailure, StoreLimits
from tests.support.saved_manifests import put_manifest, saved_manifest

NOW = 1_795_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Place:
    """A store in a directory whose objects have the ages that a test gives them."""

    def __init__(self, folder: Path) -> None:
        self.store = DirectoryStore(folder / "store")

    def put(self, name: str, content: bytes, age_ms: int) -> str:
        self.store.create(name, content)
        self.age(name, age_ms)
        return name

    def age(self, name: str, age_ms: int) -> None:
        seconds = (NOW - age_ms) / 1000
        os.utime(self.store.directory / name, (seconds, seconds))

    def pack(self, label: str, scope: str = "signed") -> str:
        return self.put(pack_name(scope, digest(label)), label.encode(), 10 * DAY)

    def manifest(self, age_ms: int, *packs: str, scope: str = "signed") -> str:
        references = tuple(
            PackReference(scope="signed", digest=digest(label), bytes=1) for label in packs
        )
        saved = saved_manifest(NOW - age_ms, NOW + DAY, packs=references)
        name = put_manifest(self.store, scope, saved)
        self.age(name, age_ms)
        self.put(signature_name(name), b"signature", age_ms)
        return name

    def names(self) -> set[str]:
        return {entry.name for entry in self.store.names("v1/")}

    def collect(
        self, now_ms: int = NOW, *, keep: int = 1, dry_run: bool = False
    ) -> CollectCacheFacts:
        rules = GarbageRules(keep=keep, older_than_ms=30 * DAY, now_ms=now_ms)
        done = collect_garbage(self.store, rules, StoreLimits(), dry_run=dry_run)
        # What it wrote itself is as old as the time that it was told.
        for entry in self.store.names("gc/"):
            if entry.modified_ms > now_ms:
                os.utime(self.store.directory / entry.name, (now_ms / 1000, now_ms / 1000))
        return done


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_newest_manifests_stay_with_their_packs(place: Place) -> None:
    kept_pack, old_pack = place.pack("kept"), place.pack("old")
    old = place.manifest(2 * DAY, "old")
    kept = place.manifest(DAY, "kept")

    first = place.collect()
    second = place.collect(NOW + DAY)

    assert (first.manifests, first.packs, first.waiting) == ((old,), (), 1)
    assert (second.manifests, second.packs, second.waiting) == ((), (old_pack,), 0)
    assert place.names() == {kept_pack, kept, signature_name(kept)}


def test_a_pack_is_not_removed_before_the_grace_is_over(place: Place) -> None:
    pack = place.pack("unneeded")
    place.collect()

    done = place.collect(NOW + DAY - HOUR)

    assert (done.packs, done.waiting) == ((), 1)
    assert pack in place.names()
    assert place.collect(NOW + DAY).packs == (pack,)


def test_a_job_that_builds_on_a_removed_manifest_keeps_its_packs(place: Place) -> None:
    pack = place.pack("parent")
    place.manifest(2 * DAY, "parent")
    place.manifest(DAY, "other")
    place.collect()

    place.manifest(HOUR, "parent")

    assert place.collect(NOW + 2 * DAY, keep=2).packs == ()
    assert pack in place.names()


def test_a_job_that_finds_a_pack_keeps_it(place: Place) -> None:
    pack = place.pack("found")
    place.collect()

    assert not place.store.create(pack, b"found")
    place.age(pack, -DAY + HOUR)

    assert place.collect(NOW + DAY).packs == ()
    assert pack in place.names()


class Racing(DirectoryStore):
    """A store in which a job acts while the collection reads its records."""

    def __init__(self, place: Place, act: Callable[[], object]) -> None:
        super().__init__(place.store.directory)
        self.act = act

    def names(self, prefix: str) -> Iterator[StoredObject]:
        if prefix.startswith("gc/"):
            self.act()
        return super().names(prefix)


@pytest.mark.parametrize("saves", [True, False])
def test_a_job_that_saves_or_finds_a_pack_during_a_collection_keeps_it(
    place: Place, saves: bool
) -> None:
    pack = place.pack("late")
    place.collect()

    def act() -> object:
        return place.manifest(0, "late") if saves else place.store.create(pack, b"late")

    rules = GarbageRules(keep=1, older_than_ms=30 * DAY, now_ms=NOW + DAY)
    done = collect_garbage(Racing(place, act), rules, StoreLimits(), dry_run=False)

    assert done.packs == ()
    assert pack in place.names()


def test_a_manifest_that_cannot_be_read_keeps_all_packs_that_it_may_need(place: Place) -> None:
    own, other = place.pack("own"), place.pack("other", scope="pr-7")
    broken = place.manifest(DAY, "own")
    (place.store.directory / broken).write_bytes(b"broken")
    place.age(broken, DAY)
    place.collect()

    done = place.collect(NOW + DAY)

    assert done.unreadable == (broken,)
    assert done.packs == (other,)
    assert own in place.names()


def test_a_manifest_of_a_pull_request_keeps_signed_packs(place: Place) -> None:
    pack = place.pack("signed")
    place.manifest(DAY, "signed", scope="pr-7")
    place.collect()

    assert place.collect(NOW + DAY).packs == ()
    assert pack in place.names()


def test_manifests_above_the_age_go_even_if_they_are_the_newest(place: Place) -> None:
    old = place.manifest(31 * DAY)

    assert place.collect(keep=5).manifests == (old,)
    assert place.names() == set()


def test_a_name_from_the_future_does_not_live_longer(place: Place) -> None:
    future = place.manifest(-365 * DAY)
    place.age(future, 31 * DAY)

    assert place.collect(keep=5).manifests == (future,)


def test_unfinished_writes_and_lone_signatures_go_after_the_grace(place: Place) -> None:
    manifest = place.manifest(DAY)
    place.store.remove(manifest)
    young, old = f"v1/signed/packs/ab/{TEMPORARY}0", f"v1/signed/packs/ab/{TEMPORARY}1"
    place.put(young, b"half", HOUR)
    place.put(old, b"half", DAY)

    done = place.collect()

    assert done.leftovers == tuple(sorted([old, signature_name(manifest)]))
    assert place.names() == {young}


def test_a_dry_run_says_the_same_and_changes_nothing(place: Place) -> None:
    place.pack("old")
    place.manifest(2 * DAY, "old")
    place.manifest(DAY)
    place.collect()
    before = set(place.store.names(""))

    planned = place.collect(NOW + DAY, dry_run=True)

    assert set(place.store.names("")) == before
    assert replace(planned, is_dry_run=False) == place.collect(NOW + DAY)
    assert planned.freed_bytes == len("old")


def test_objects_of_others_are_left_alone(place: Place) -> None:
    name = place.put("v1/signed/notes.txt", b"", 100 * DAY)
    place.collect()
    place.collect(NOW + DAY)

    assert place.names() == {name}


def test_a_damaged_record_counts_as_none(place: Place) -> None:
    pack = place.pack("unneeded")
    place.put("gc/v1/0000000000000-ab.json", b"{broken", 2 * DAY)

    assert place.collect().packs == ()
    assert pack in place.names()


class Failing(DirectoryStore):
    def read(self, name: str, limit: int) -> bytes | None:
        raise StoreError(StoreFailure.TIMEOUT, "no answer")


def test_a_store_that_fails_ends_the_collection_before_anything_is_removed(place: Place) -> None:
    place.manifest(2 * DAY)
    place.manifest(DAY)
    before = place.names()
    rules = GarbageRules(keep=1, older_than_ms=DAY * 30, now_ms=NOW)

    with pytest.raises(StoreError, match="no answer"):
        collect_garbage(Failing(place.store.directory), rules, StoreLimits(), dry_run=False)

    assert place.names() == before
