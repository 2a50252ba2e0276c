"""Every object of a store that is not what its name says is named."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_doctor.caches.trusted_store import TrustedStore, VerifiedStore, verify_store
from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.manifest import (
    PACK_BYTES,
    FileEntry,
    PackReference,
    encode,
    manifest_name,
    pack_name,
)
from ci_doctor.store.transfer import Deadline
from ci_doctor.store.transfer import digest as content_digest
from ci_doctor.store.trust import TrustPolicy, TrustRules
from tests.support.saved_manifests import saved_manifest

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

    def verify(self) -> VerifiedStore:
        rules = TrustRules(policy=TrustPolicy.LOCAL, allowed=None, now_ms=NOW)
        source = TrustedStore(store=self.store, scopes=("local",), rules=rules)
        return verify_store(source, ("triton",), Deadline(60))


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return Saved(tmp_path)


def test_a_whole_store_has_nothing_damaged(saved: Saved) -> None:
    whole = VerifiedStore(manifests=1, packs=2, bytes=sum(map(len, CONTENTS)), damaged=())

    assert saved.verify() == whole


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
