# SPDX-License-Identifier: Apache-2.0

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_doctor.store.manifest import (
    FRAME_BYTES,
    ColdCost,
    FileEntry,
    FilePiece,
    IdentityTier,
    Manifest,
    PackReference,
    StoredFrame,
    check_manifest,
    check_paths,
    compress,
    decode,
    decompress,
    encode,
    path_fault,
)
from ci_doctor.store.objects import DamagedError, LimitError, StoreLimits
from tests.support.saved_manifests import saved_manifest
from tests.support.saved_trees import TIER

DIGEST = "0" * 64
ENTRY = FileEntry(
    path="a/b",
    bytes=10,
    mode=0o644,
    mtime_ns=1,
    digest=DIGEST,
    pieces=(FilePiece(frame=0, offset=0, bytes=10),),
)
FRAME = StoredFrame(pack=0, offset=0, bytes=100, raw_bytes=10, digest=DIGEST)
PACK = PackReference(scope="local", digest=DIGEST, bytes=100)
MANIFEST = saved_manifest(1, 2, hard=TIER, packs=(PACK,), frames=(FRAME,), files=(ENTRY,))
PACK_OF_8_MIB = replace(PACK, bytes=8 << 20)
BOMB = replace(FRAME, bytes=1000, raw_bytes=FRAME_BYTES)
NOISE = replace(FRAME, offset=1000, bytes=FRAME_BYTES, raw_bytes=FRAME_BYTES)


def test_a_manifest_comes_back_as_it_was() -> None:
    assert decode(encode(MANIFEST), StoreLimits()) == MANIFEST


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", compress(b"{}"), compress(b"[" * 1000), encode(MANIFEST)[:-1], b"\0" * 100],
)
def test_what_is_no_manifest_is_damaged(content: bytes) -> None:
    with pytest.raises(DamagedError):
        decode(content, StoreLimits())


@pytest.mark.parametrize(("schema", "hint"), [(1, "save the cache again"), (3, "a newer one")])
def test_another_schema_is_refused_by_name(schema: int, hint: str) -> None:
    other = msgspec.structs.replace(MANIFEST, schema=schema)

    with pytest.raises(DamagedError, match=f"schema {schema}") as raised:
        decode(encode(other), StoreLimits())

    assert hint in str(raised.value.hint)


def test_lists_are_counted_before_they_are_made() -> None:
    with pytest.raises(LimitError, match="too many entries"):
        decode(compress(b"[" + b"[0,0,0]," * 3000 + b"0]"), StoreLimits(files=10))


def test_facts_are_counted_before_they_are_made() -> None:
    facts = {str(number): "" for number in range(40_000)}
    many = msgspec.structs.replace(MANIFEST, hard=IdentityTier(facts=facts))

    with pytest.raises(LimitError, match="too many entries"):
        decode(encode(many), StoreLimits(files=10))


def test_a_frame_that_declares_too_much_is_not_decompressed() -> None:
    with pytest.raises(LimitError, match="declares 1000 bytes"):
        decompress(compress(bytes(1000)), 999)


def test_a_frame_that_holds_more_than_it_declares_is_damaged() -> None:
    frame = bytearray(compress(bytes(range(200))))
    assert zstandard.frame_content_size(bytes(frame)) == 200
    frame[frame.index(200)] = 100  # the declared size

    with pytest.raises(DamagedError):
        decompress(bytes(frame), 1000)


def test_a_frame_that_declares_no_size_or_has_a_tail_is_damaged() -> None:
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 10)

    with pytest.raises(DamagedError):
        decompress(silent, 1000)
    with pytest.raises(DamagedError):
        decompress(compress(b"x" * 10) + b"tail", 1000)


def test_an_unknown_fact_is_part_of_a_tier_and_no_value() -> None:
    unknown = IdentityTier(facts={}, unknown=("driver",))

    assert unknown.digest() != IdentityTier(facts={"driver": ""}).digest()
    assert unknown.digest() != IdentityTier(facts={}).digest()
    assert IdentityTier(facts={"a": "1", "b": "2"}).digest() == (
        IdentityTier(facts={"b": "2", "a": "1"}).digest()
    )


def test_a_sound_manifest_passes() -> None:
    check_manifest(MANIFEST, StoreLimits())


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a/..",
        "a/./b",
        ".",
        "",
        "a//b",
        "a/",
        "a\0b",
        "a\nb",
        "a\\b",
        "x" * 256,
        "x" * 256 + "/a",
        "/".join("ab" * 300),
        "a/" * 200 + "a",
        "/a/b",
        "a\n/b",
        "\ud800/b",
        "\ud800",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(LimitError):
        check_manifest(replace(MANIFEST, files=(replace(ENTRY, path=path),)), StoreLimits())


@pytest.mark.parametrize(
    ("limits", "cause"),
    [
        (StoreLimits(files=0), "files"),
        (StoreLimits(bytes=9), "bytes of files"),
        (StoreLimits(file_bytes=9), "has 10 bytes"),
        (StoreLimits(path_bytes=2), "3 bytes"),
        (StoreLimits(ratio=0, plain_bytes=0), "1:0"),
    ],
)
def test_more_than_a_limit_is_refused(limits: StoreLimits, cause: str) -> None:
    with pytest.raises(LimitError, match=cause):
        check_manifest(MANIFEST, limits)


def large(*pieces: FilePiece) -> FileEntry:
    return replace(ENTRY, bytes=sum(piece.bytes for piece in pieces), pieces=pieces)


@pytest.mark.parametrize(
    ("packs", "frames"),
    [
        pytest.param((PACK_OF_8_MIB,), (BOMB,) * 8 + (NOISE,), id="a-frame-of-no-file"),
        pytest.param((PACK_OF_8_MIB,), (BOMB,) * 200, id="one-place-many-times"),
        pytest.param(
            (PACK_OF_8_MIB,) * 200,
            tuple(replace(BOMB, pack=number) for number in range(200)),
            id="one-pack-many-times",
        ),
    ],
)
def test_stored_bytes_that_are_not_there_allow_no_bomb(
    packs: tuple[PackReference, ...], frames: tuple[StoredFrame, ...]
) -> None:
    pieces = [FilePiece(frame=number, offset=0, bytes=FRAME_BYTES) for number in range(8)]
    manifest = replace(MANIFEST, packs=packs, frames=frames, files=(large(*pieces),))

    with pytest.raises(LimitError, match="1:200"):
        check_manifest(manifest, StoreLimits(plain_bytes=0))


@pytest.mark.parametrize(
    "cold",
    [
        ColdCost(seconds=-1.0, compiled=1, gpus=1, source="log"),
        ColdCost(seconds=1e300, compiled=1, gpus=1, source="log"),
        ColdCost(seconds=1.0, compiled=-1, gpus=1, source="log"),
        ColdCost(seconds=1.0, compiled=1, gpus=10**9, source="log"),
    ],
)
def test_a_cost_that_no_job_has_is_refused(cold: ColdCost) -> None:
    with pytest.raises(DamagedError, match="cost"):
        check_manifest(replace(MANIFEST, cold=cold), StoreLimits())


@pytest.mark.parametrize(
    "manifest",
    [
        replace(MANIFEST, frames=(replace(FRAME, pack=1),)),
        replace(MANIFEST, frames=(replace(FRAME, pack=-1),)),
        replace(MANIFEST, frames=(replace(FRAME, offset=-1),)),
        replace(MANIFEST, frames=(replace(FRAME, offset=1),)),
        replace(MANIFEST, frames=(replace(FRAME, bytes=0),)),
        replace(MANIFEST, frames=(replace(FRAME, digest="../x"),)),
        replace(MANIFEST, frames=(replace(FRAME, raw_bytes=5 << 20),)),
        replace(
            MANIFEST,
            packs=(replace(PACK, bytes=30 << 20),),
            frames=(replace(FRAME, bytes=20 << 20),),
        ),
        replace(MANIFEST, packs=(replace(PACK, scope="../signed"),)),
        replace(MANIFEST, packs=(replace(PACK, digest=DIGEST[:-1] + "/"),)),
        replace(MANIFEST, packs=(replace(PACK, bytes=1 << 40),)),
        replace(MANIFEST, family="a/b"),
        replace(MANIFEST, files=(replace(ENTRY, bytes=11),)),
        replace(MANIFEST, files=(replace(ENTRY, bytes=-10),)),
        replace(MANIFEST, files=(replace(ENTRY, mtime_ns=-1),)),
        replace(MANIFEST, files=(replace(ENTRY, mtime_ns=2**63),)),
        replace(MANIFEST, files=(replace(ENTRY, digest="x"),)),
        replace(MANIFEST, files=(large(FilePiece(frame=1, offset=0, bytes=10)),)),
        replace(MANIFEST, files=(large(FilePiece(frame=-1, offset=0, bytes=10)),)),
        replace(MANIFEST, files=(large(FilePiece(frame=0, offset=1, bytes=10)),)),
        replace(MANIFEST, files=(large(FilePiece(frame=0, offset=-1, bytes=10)),)),
        replace(MANIFEST, files=(large(*[FilePiece(frame=0, offset=0, bytes=1)] * 10),)),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(manifest: Manifest) -> None:
    with pytest.raises(DamagedError):
        check_manifest(manifest, StoreLimits())


@pytest.mark.parametrize(
    "paths",
    [
        ["a", "a"],
        ["Kernel.so", "kernel.so"],
        ["A/x", "a/y"],
        ["a", "a/b"],
        ["a/b", "a"],
        ["a/b/c", "A/B"],
        ["straße", "STRASSE"],
    ],
)
def test_paths_that_collide_are_refused(paths: list[str]) -> None:
    with pytest.raises(LimitError):
        check_paths(paths, StoreLimits())


@given(st.lists(st.text(alphabet="aB./\0é", max_size=8), max_size=6))
def test_paths_that_pass_stay_below_a_directory_and_apart(paths: list[str]) -> None:
    try:
        check_paths(paths, StoreLimits())
    except DamagedError:
        return
    for path in paths:
        parts = path.split("/")
        assert not {"", ".", ".."} & set(parts)
        assert "\0" not in path
    folded = [path.casefold() for path in paths]
    assert len(set(folded)) == len(folded)
    assert not any(a.startswith(f"{b}/") for a in folded for b in folded)


def test_a_path_that_is_refused_stands_in_no_other_ones_way() -> None:
    fault = path_fault(StoreLimits())

    assert fault("a/\n") is not None
    assert fault("a") is None
