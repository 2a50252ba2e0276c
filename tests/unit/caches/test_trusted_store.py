# SPDX-License-Identifier: Apache-2.0
"""Which saved caches a family may take."""

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
from ci_doctor.store.manifest import PACK_BYTES, PackReference, pack_name
from ci_doctor.store.objects import StoreError, StoreFailure, TooLargeError
from ci_doctor.store.transfer import Deadline, digest
from ci_doctor.store.trust import CandidateManifest, TrustPolicy, TrustRules, Vouched
from tests.support.saved_manifests import EMPTY_FILE, put_manifest, receipt, saved_manifest

WHOLE = saved_manifest(1, 2)


class Source:
    """A trusted store in which reading some names fails."""

    def __init__(self, failures: dict[str, StoreError]) -> None:
        self._failures = failures

    def read(self, name: str) -> CandidateManifest:
        if name in self._failures:
            raise self._failures[name]
        return CandidateManifest(name=name, scope="local", manifest=WHOLE, vouched=Vouched())


@pytest.mark.parametrize(
    ("failure", "refused"),
    [
        (StoreError(StoreFailure.MISSING, "it does not exist any more"), ()),
        (TooLargeError("it has more than 64 bytes"), ("it has more than 64 bytes",)),
    ],
    ids=["removed by garbage collection", "above the limit"],
)
def test_a_manifest_that_cannot_be_read_leaves_the_older_ones(
    failure: StoreError, refused: tuple[str, ...]
) -> None:
    candidates = read_names(Source({"new": failure}), ["new", "old"])  # type: ignore[arg-type]

    assert (list(candidates.manifests), candidates.refused) == (["old"], refused)


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


class Saved:
    """A manifest of two packs."""

    def __init__(self, folder: Path) -> None:
        self.store = DirectoryStore(folder / "store")
        digests = [digest(content) for content in CONTENTS]
        names = [pack_name("local", each) for each in digests]
        packs = tuple(
            PackReference(scope="local", digest=each, bytes=len(content))
            for each, content in zip(digests, CONTENTS, strict=True)
        )
        for name, content in zip(names, CONTENTS, strict=True):
            self.store.create(name, content)
        manifest = saved_manifest(NOW - 1, NOW + 1, packs=packs, files=(EMPTY_FILE,))
        put_manifest(self.store, "local", manifest)
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
