import pytest
from msgspec.structs import replace

from ci_doctor.store.manifest import (
    FRAME_BYTES,
    SCHEMA,
    ColdCost,
    FileEntry,
    FilePiece,
    Manifest,
    Origin,
    PackReference,
    StoredFrame,
    check_manifest,
)
from ci_doctor.store.objects import DamagedError, LimitError, StoreLimits
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
MANIFEST = Manifest(
    schema=SCHEMA,
    family="triton",
    hard=TIER,
    path=TIER,
    soft=TIER,
    root="/cache",
    created_ms=1,
    expires_ms=2,
    origin=Origin(tool="0.1"),
    cold=None,
    packs=(PACK,),
    frames=(FRAME,),
    files=(ENTRY,),
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


PACK_OF_8_MIB = replace(PACK, bytes=8 << 20)
BOMB = replace(FRAME, bytes=1000, raw_bytes=FRAME_BYTES)
NOISE = replace(FRAME, offset=1000, bytes=FRAME_BYTES, raw_bytes=FRAME_BYTES)


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
