# SPDX-License-Identifier: Apache-2.0
"""Archived starts that are signed, and readers that take nothing else, in a directory and in an object store."""

from pathlib import Path

import pytest

from ci_doctor.correctness.archive.archive import NAMESPACE, Archive, archive_store, place_of
from ci_doctor.store.signer import generate_key, load_signer
from ci_doctor.store.trust import AllowedSigners
from ci_doctor.system import clock
from tests.unit.correctness.archived import IDENTITY, IDS, OLD, kept

KEYS = {"ours": NAMESPACE, "theirs": NAMESPACE, "caches": "ci-doctor-cache"}


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    return {name: generate_key(tmp_path / name) for name in KEYS}


def writing(place: Path | str, tmp_path: Path, key: str | None) -> Archive:
    signer = load_signer(tmp_path / key, KEYS[key]) if key else None
    return Archive(place, days=30, limit=1 << 30, signer=signer)


def reading(place: Path | str, keys: dict[str, str]) -> Archive:
    line = f'ci@warm namespaces="{NAMESPACE},ci-doctor-cache" {{}}'
    text = "\n".join(line.format(keys[name]) for name in ("ours", "caches"))
    return Archive(place, days=30, limit=1 << 30, signers=AllowedSigners.parse(text, "signers"))


def test_what_an_allowed_signer_has_signed_is_used(
    place: Path | str, tmp_path: Path, keys: dict[str, str]
) -> None:
    kept(writing(place, tmp_path, "ours"), tmp_path)
    found = reading(place, keys).find(IDENTITY, IDS, 2)
    assert (len(found.starts), found.skipped) == (1, ())
    # Who asks for no signature reads it as ever.
    assert len(writing(place, tmp_path, None).find(IDENTITY, IDS, 2).starts) == 1


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (None, "is not signed"),
        ("theirs", "no line of signers has the key"),
        ("caches", "was made for 'ci-doctor-cache'"),
    ],
)
def test_what_nobody_who_may_has_signed_is_told_and_not_used(
    place: Path | str, tmp_path: Path, keys: dict[str, str], key: str | None, why: str
) -> None:
    kept(writing(place, tmp_path, key), tmp_path)
    found = reading(place, keys).find(IDENTITY, IDS, 2)
    assert found.starts == ()
    assert why in found.skipped[0]


def test_a_start_that_was_changed_or_renamed_is_not_used(
    place: Path | str, tmp_path: Path, keys: dict[str, str]
) -> None:
    archive = writing(place, tmp_path, "ours")
    name = str(kept(archive, tmp_path, recorded_at=OLD)).removeprefix(f"{place}/")
    store = archive_store(place)
    content, signature = store.read(name, 1 << 20), store.read(f"{name}.sig", 1 << 20)
    assert content is not None
    assert signature is not None
    # The old start, as if it were of today.
    today = clock.timestamp()[:19].replace("-", "").replace(":", "") + "000Z"
    renamed = f"{place_of(IDENTITY)}/start-{today}-{'0' * 16}.jsonl.gz"
    changed = renamed.replace("0" * 16, "1" * 16)
    for where, bytes_ in ((renamed, content), (changed, content + b"\0")):
        store.create(where, bytes_)
        store.create(f"{where}.sig", signature)
    found = reading(place, keys).find(IDENTITY, IDS, 2)
    assert found.starts == ()
    assert sorted("another time" in each for each in found.skipped) == [False, True]


def test_a_signature_goes_with_its_start(
    place: Path | str, tmp_path: Path, keys: dict[str, str]
) -> None:
    assert keys
    archive = writing(place, tmp_path, "ours")
    kept(archive, tmp_path, recorded_at=OLD)
    assert len(archive.evict()) == 1
    assert list(archive_store(place).names("identity-")) == []
