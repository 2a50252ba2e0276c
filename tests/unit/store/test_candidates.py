"""A manifest is used if somebody who may vouches for it, for this identity, in this scope, now."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.manifest import (
    FileEntry,
    IdentityTier,
    Manifest,
    PackReference,
    encode,
    manifest_name,
    signature_name,
)
from ci_doctor.store.objects import DamagedError, StoreError, StoreLimits
from ci_doctor.store.signer import generate_key, load_signer
from ci_doctor.store.trust import (
    AllowedSigners,
    Distrust,
    TrustPolicy,
    TrustRules,
    UntrustedError,
    manifests,
    namespace_of,
    read_manifest,
)
from tests.support.saved_manifests import saved_manifest

NOW = 1_795_000_000_000
HOUR = 3_600_000
LIMITS = StoreLimits()


def manifest(
    created_ms: int = NOW - HOUR, expires_ms: int = NOW + HOUR, **changes: object
) -> Manifest:
    tier = IdentityTier(facts={"torch": "2.13"})
    file = FileEntry(path="a", bytes=0, mode=0o644, mtime_ns=0, digest="0" * 64, pieces=())
    own = {"hard": tier, "path": tier, "soft": tier, "files": (file,)}
    return saved_manifest(created_ms, expires_ms, **{**own, **changes})


class Place:
    """A store in a directory, a key, and the file that allows it."""

    def __init__(self, folder: Path) -> None:
        self.key = folder / "key"
        self.store = DirectoryStore(folder / "store")
        line = generate_key(self.key)
        allowed = AllowedSigners.parse(f"ci@warm {line}", "allowed")
        self.rules = TrustRules(policy=TrustPolicy.SIGNED, allowed=allowed, now_ms=NOW)

    def put(self, saved: Manifest, scope: str = "signed", *, made_for: str | None = None) -> str:
        """Store a manifest in `scope`, with a signature made for the scope `made_for` if given."""
        content = encode(saved)
        name = manifest_name(scope, saved, hashlib.sha256(content).hexdigest())
        self.store.create(name, content)
        if made_for is not None:
            signer = load_signer(self.key, namespace_of(made_for))
            self.store.create(signature_name(name), signer.sign(content).encode())
        return name

    def copy(self, source: str, target: str) -> str:
        for name, copy in ((source, target), (signature_name(source), signature_name(target))):
            self.store.create(copy, self.store.read(name, 10**6) or b"")
        return target

    def distrust(self, name: str) -> Distrust:
        with pytest.raises(UntrustedError) as raised:
            read_manifest(self.store, name, self.rules, LIMITS)
        return raised.value.distrust


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_signed_manifest_is_read_with_its_signer(place: Place) -> None:
    name = place.put(manifest(), made_for="signed")

    candidate = read_manifest(place.store, name, place.rules, LIMITS)

    assert candidate.manifest == manifest()
    assert (candidate.scope, candidate.vouched.signer) == ("signed", "ci@warm")


def test_names_come_newest_first_and_hold_only_manifests(place: Place) -> None:
    old = place.put(manifest(created_ms=NOW - 3), made_for="signed")
    new = place.put(manifest(created_ms=NOW - 1), made_for="signed")
    own = place.put(manifest(created_ms=NOW - 2), "pr-7")
    place.put(manifest(created_ms=NOW, family="inductor"))
    place.put(manifest(created_ms=NOW, hard=IdentityTier(facts={"torch": "2.12"})))
    place.store.create(f"{new.rpartition('/')[0]}/notes.txt", b"")
    hard = manifest().hard.digest()[:32]

    assert manifests(place.store, ("pr-7", "signed"), "triton", hard) == [new, own, old]
    assert manifests(place.store, ("signed",), "triton", hard) == [new, old]
    assert manifests(place.store, ("local",), "triton", hard) == []


def test_one_that_nobody_signed_is_refused_before_it_is_parsed(place: Place) -> None:
    name = place.put(manifest())
    (place.store.directory / name).write_bytes(b"no manifest at all")

    assert place.distrust(name) is Distrust.UNSIGNED


def test_changed_bytes_are_refused(place: Place) -> None:
    name = place.put(manifest(), made_for="signed")
    (place.store.directory / name).write_bytes(encode(manifest(root="/evil")))

    assert place.distrust(name) is Distrust.TAMPERED


@pytest.mark.parametrize(
    "change",
    [
        {"family": "inductor"},
        {"hard": IdentityTier(facts={"torch": "2.12"})},
        {"hard": IdentityTier(facts={}, unknown=("torch",))},
        {"created_ms": NOW},
    ],
)
def test_a_copy_under_another_identity_or_time_is_replayed(
    place: Place, change: dict[str, Any]
) -> None:
    name = place.put(manifest(), made_for="signed")
    digest = hashlib.sha256(encode(manifest())).hexdigest()

    target = place.copy(name, manifest_name("signed", manifest(**change), digest))

    assert place.distrust(target) is Distrust.REPLAYED


def test_what_a_pull_request_signed_is_worth_nothing_in_another_scope(place: Place) -> None:
    name = place.put(manifest(), "pr-7", made_for="pr-7")

    assert read_manifest(place.store, name, place.rules, LIMITS).scope == "pr-7"
    for scope in ("signed", "pr-8"):
        target = place.copy(name, name.replace("/pr-7/", f"/{scope}/"))
        assert place.distrust(target) is Distrust.WRONG_NAMESPACE


@pytest.mark.parametrize(
    ("scope", "packs", "accepted"),
    [
        ("signed", ("signed",), True),
        ("signed", ("pr-7",), False),
        ("pr-7", ("pr-7", "signed"), True),
        ("pr-7", ("pr-8",), False),
    ],
)
def test_bytes_come_from_the_own_scope_or_what_main_signed(
    place: Place, scope: str, packs: tuple[str, ...], accepted: bool
) -> None:
    references = tuple(PackReference(scope=pack, digest="0" * 64, bytes=1) for pack in packs)
    name = place.put(manifest(packs=references), scope, made_for=scope)

    if accepted:
        assert read_manifest(place.store, name, place.rules, LIMITS).manifest.packs == references
    else:
        assert place.distrust(name) is Distrust.REPLAYED


def test_an_expired_manifest_is_refused(place: Place) -> None:
    name = place.put(manifest(expires_ms=NOW), made_for="signed")

    assert place.distrust(name) is Distrust.EXPIRED


def test_a_name_with_another_digest_is_damaged(place: Place) -> None:
    name = place.put(manifest(), made_for="signed")
    target = place.copy(name, f"{name.rpartition('-')[0]}-{'0' * 64}.json.zst")

    with pytest.raises(DamagedError, match="was changed"):
        read_manifest(place.store, target, place.rules, LIMITS)


def test_a_manifest_that_vanished_or_never_was_one_is_said(place: Place) -> None:
    name = place.put(manifest(), made_for="signed")
    place.store.remove(name)

    with pytest.raises(StoreError, match="does not exist any more"):
        read_manifest(place.store, name, place.rules, LIMITS)
    with pytest.raises(DamagedError, match="not the name of a manifest"):
        read_manifest(place.store, "v1/signed/packs/x", place.rules, LIMITS)


def test_limits_hold_for_what_is_signed_too(place: Place) -> None:
    name = place.put(manifest(), made_for="signed")

    with pytest.raises(StoreError):
        read_manifest(place.store, name, place.rules, StoreLimits(files=0))
    with pytest.raises(StoreError):
        read_manifest(place.store, name, place.rules, StoreLimits(manifest_bytes=10))
