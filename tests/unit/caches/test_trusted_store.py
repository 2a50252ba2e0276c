# SPDX-License-Identifier: Apache-2.0
"""Which saved caches a family may take."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_doctor.caches.families import FAMILIES
from ci_doctor.caches.targets import CacheTarget
from ci_doctor.caches.trusted_store import (
    TrustedStore,
    keep_receipt,
    read_names,
    verify_installed,
    verify_store,
)
from ci_doctor.model.facts.cache import VerifiedCache, VerifyCacheFacts
from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.manifest import (
    PACK_BYTES,
    FileEntry,
    PackReference,
    encode,
    manifest_name,
    pack_name,
)
from ci_doctor.store.objects import StoreError, StoreFailure, TooLargeError
from ci_doctor.store.transfer import Deadline
from ci_doctor.store.transfer import digest as content_digest
from ci_doctor.store.trust import CandidateManifest, TrustPolicy, TrustRules, Vouched
from tests.support.saved_manifests import receipt, saved_manifest

WHOLE = saved_manifest(1, 2)


class Source:
    """A trusted store in which reading some names fails."""

    def __init__(self, failures: dict[str, StoreError]) -> None:
        self._failures = failures

    def read(self, name: str) -> CandidateManifest:
        if name in self._failures:
            raise self._failures[name]
        return CandidateManifest(name=name, scope="local", manifest=WHOLE, vouched=Vouched())


def test_a_manifest_that_garbage_collection_has_removed_leaves_the_older_ones() -> None:
    gone = StoreError(StoreFailure.MISSING, "it does not exist any more")

    candidates = read_names(Source({"new": gone}), ["new", "old"])  # type: ignore[arg-type]

    assert list(candidates.manifests) == ["old"]
    assert candidates.refused == ()


def test_a_manifest_above_the_limit_is_refused_and_leaves_the_older_ones() -> None:
    large = TooLargeError("it has more than 64 bytes")

    candidates = read_names(Source({"new": large}), ["new", "old"])  # type: ignore[arg-type]

    assert list(candidates.manifests) == ["old"]
    assert candidates.refused == ("it has more than 64 bytes",)


def test_many_that_nobody_trusts_do_not_hide_the_one_that_somebody_signed() -> None:
    junk = {f"junk {number}": TooLargeError("junk") for number in range(20)}

    candidates = read_names(Source(dict(junk)), [*junk, "old", "older"], most=1)  # type: ignore[arg-type]

    assert list(candidates.manifests) == ["old"]
    assert len(candidates.refused) == 20


def test_a_store_that_does_not_answer_ends_the_look() -> None:
    silent = StoreError(StoreFailure.TIMEOUT, "no answer")

    with pytest.raises(StoreError, match="no answer"):
        read_names(Source({"new": silent}), ["new", "old"])  # type: ignore[arg-type]


def verified(folder: Path) -> VerifiedCache:
    """What is said of a receipt of one file `a/b` in `folder`."""
    state = folder / "state"
    state.mkdir()
    keep_receipt(state, receipt(folder))
    target = CacheTarget(family=FAMILIES["triton"], directory=folder)
    (cache,) = verify_installed((target,), state)
    return cache


def test_a_file_that_is_gone_is_missing(tmp_path: Path) -> None:
    assert verified(tmp_path).missing == ("a/b",)


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(lambda place: place.write_text("other"), id="other bytes"),
        pytest.param(os.mkfifo, id="a pipe in place of a file, which holds nobody up"),
        pytest.param(lambda place: place.symlink_to("/dev/zero"), id="a link, not followed"),
    ],
)
def test_a_file_with_other_bytes_is_changed(
    tmp_path: Path, plant: Callable[[Path], object]
) -> None:
    (tmp_path / "a").mkdir()
    plant(tmp_path / "a" / "b")

    assert verified(tmp_path).changed == ("a/b",)


NOW = 1_795_000_000_000
CONTENTS = (b"one pack", b"another one")
FILE = FileEntry(path="a", bytes=0, mode=0o644, mtime_ns=0, digest="0" * 64, pieces=())


class Saved:
    """A manifest of two packs."""

    def __init__(self, folder: Path) -> None:
        self.store = DirectoryStore(folder / "store")
        digests = [content_digest(content) for content in CONTENTS]
        names = [pack_name("local", digest) for digest in digests]
        packs = tuple(
            PackReference(scope="local", digest=digest, bytes=len(content))
            for digest, content in zip(digests, CONTENTS, strict=True)
        )
        for name, content in zip(names, CONTENTS, strict=True):
            self.store.create(name, content)
        manifest = saved_manifest(NOW - 1, NOW + 1, packs=packs, files=(FILE,))
        content = encode(manifest)
        digest = hashlib.sha256(content).hexdigest()
        self.store.create(manifest_name("local", manifest, digest), content)
        self.pack = self.store.directory / names[0]

    def verify(self) -> VerifyCacheFacts:
        rules = TrustRules(policy=TrustPolicy.LOCAL, allowed=None, now_ms=NOW)
        source = TrustedStore(store=self.store, scopes=("local",), rules=rules)
        return verify_store(source, ("triton",), Deadline(60))


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return Saved(tmp_path)


def test_a_whole_store_has_nothing_damaged(saved: Saved) -> None:
    whole = saved.verify()

    assert (whole.manifests, whole.packs, whole.damaged) == (1, 2, ())
    assert whole.bytes == sum(map(len, CONTENTS))


def pipe(pack: Path) -> None:
    pack.unlink()
    os.mkfifo(pack)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda pack: pack.write_bytes(b"other"), id="other-bytes"),
        pytest.param(lambda pack: os.truncate(pack, PACK_BYTES + 1), id="too-long"),
        pytest.param(Path.unlink, id="missing"),
        pytest.param(pipe, id="pipe"),
    ],
)
def test_a_pack_that_is_not_what_its_name_says_is_named_and_the_others_are_read(
    saved: Saved, spoil: Callable[[Path], object]
) -> None:
    spoil(saved.pack)

    verified = saved.verify()

    (damaged,) = verified.damaged
    assert saved.pack.name in damaged
    assert verified.bytes == len(CONTENTS[1])
