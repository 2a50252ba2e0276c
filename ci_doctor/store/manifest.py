# SPDX-License-Identifier: Apache-2.0
"""Pure. A manifest: what a saved tree was made for, its files, and where their bytes are.

Stored as JSON in one zstd frame. The structs of which there are thousands are arrays in it.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, Self

import msgspec

from ci_doctor.decodable import decodable
from ci_doctor.store.errors import DamagedError, LimitError
from ci_doctor.store.limits import StoreLimits

SCHEMA: Final = 2
FRAME_BYTES: Final = 4 * 1024 * 1024
PACK_BYTES: Final = 32 * 1024 * 1024  # the most; this version writes half of it
# Beside zstd's level 2 with its window: a sixth faster to compress, a third less time to decompress, and a
# sixth larger; still smaller than level 3 in a tar archive (benchmarks/caches/speed.py).
_LEVEL: Final = 1
_PARAMETERS: Final = {"window_log": 22, "hash_log": 17, "target_length": 3}


class StoredFrame(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A zstd frame in a pack; it declares `raw_bytes` (at most 4 MiB) in its own header too.

    `digest` (hex) is of the frame as it is stored, so that nothing is decompressed unverified.
    """

    pack: int
    offset: int
    bytes: int
    raw_bytes: int
    digest: str


class PackReference(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A pack by the scope in which it lies, the digest of its bytes (hex), and its size."""

    scope: str
    digest: str
    bytes: int


class FilePiece(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A part of a file: `bytes` from `offset` of a frame's content."""

    frame: int
    offset: int
    bytes: int


class FileEntry(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A regular file. `path` is relative with "/" between components; `digest` is of the content.

    A file has no piece (it is empty), one piece, or several that are whole frames, in order.
    """

    path: str
    bytes: int
    mode: int
    mtime_ns: int
    digest: str
    pieces: tuple[FilePiece, ...]


class IdentityTier(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of one tier of an identity, and the names of facts that nobody could tell."""

    facts: dict[str, str]
    unknown: tuple[str, ...] = ()

    def digest(self) -> str:
        """SHA-256 (hex) of the facts in order of their names; an unknown fact counts as unknown."""
        known: list[list[str | None]] = [[name, value] for name, value in self.facts.items()]
        known += [[name, None] for name in self.unknown if name not in self.facts]
        content = msgspec.json.encode(sorted(known, key=lambda pair: pair[0] or ""))
        return hashlib.sha256(content).hexdigest()


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The job that saved a tree, as far as it is known, and the version of this tool."""

    tool: str
    pipeline: str | None = None
    build: str | None = None
    commit: str | None = None
    branch: str | None = None
    job: str | None = None
    agent: str | None = None


class ColdCost(msgspec.Struct, frozen=True, kw_only=True):
    """What it cost to make the tree: seconds, things compiled, GPUs that waited, and who says so."""

    seconds: float
    compiled: int
    gpus: int
    source: str


class ManifestHeader(msgspec.Struct, frozen=True, kw_only=True):
    """All of a manifest but what save_tree() finds itself. Times are ms since the epoch.

    `root` is the absolute directory that is saved.
    """

    family: str
    hard: IdentityTier
    path: IdentityTier
    soft: IdentityTier
    root: str
    created_ms: int
    expires_ms: int
    origin: Origin
    cold: ColdCost | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A saved tree: the header's fields, the packs, the frames in them, and the files."""

    schema: int
    family: str
    hard: IdentityTier
    path: IdentityTier
    soft: IdentityTier
    root: str
    created_ms: int
    expires_ms: int
    origin: Origin
    cold: ColdCost | None
    packs: tuple[PackReference, ...]
    frames: tuple[StoredFrame, ...]
    files: tuple[FileEntry, ...]

    @classmethod
    def of(
        cls,
        header: ManifestHeader,
        *,
        packs: Iterable[PackReference],
        frames: Iterable[StoredFrame],
        files: Iterable[FileEntry],
    ) -> Self:
        """The manifest of a header and what was saved."""
        fields = {name: getattr(header, name) for name in header.__struct_fields__}
        return cls(
            schema=SCHEMA, packs=tuple(packs), frames=tuple(frames), files=tuple(files), **fields
        )

    def bytes(self) -> int:
        """The sum of the sizes of its files."""
        return sum(entry.bytes for entry in self.files)


class _Version(msgspec.Struct, frozen=True):
    schema: int


def encode(manifest: Manifest) -> bytes:
    """The bytes to store: what is signed, and what a name's SHA-256 is of."""
    return compress(msgspec.json.encode(manifest))


def decode(content: bytes, limits: StoreLimits) -> Manifest:
    """The manifest in stored bytes. Its values are not checked yet: check_manifest() does that.

    Raises LimitError if its JSON is larger than the limit, or holds far more lists or texts than its files need.
    DamagedError if it is no manifest, or of another schema.
    """
    raw = decompress(content, limits.manifest_bytes)
    # A list costs 20 times its JSON in memory, so they are counted before they are made.
    # A text, which has two quotes, costs 10 times: a file has two of them, a frame one.
    if raw.count(b"[") > 8 * limits.files + 1024 or raw.count(b'"') > 6 * limits.files + 65536:
        raise LimitError("the manifest has too many entries")
    try:
        schema = msgspec.json.decode(raw, type=decodable(_Version)).schema
        if schema != SCHEMA:
            raise _other_schema(schema)
        return msgspec.json.decode(raw, type=decodable(Manifest))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedError(f"the manifest cannot be read: {error}") from error


def _other_schema(schema: int) -> DamagedError:
    message = f"the manifest has schema {schema}, and this version reads schema {SCHEMA}"
    if schema < SCHEMA:
        return DamagedError(message, hint="save the cache again with this version of ci-doctor")
    return DamagedError(message, hint="use the version of ci-doctor that saved it, or a newer one")


def compress(content: bytes | memoryview) -> bytes:
    """One zstd frame that declares the size of its content."""
    import zstandard

    parameters = zstandard.ZstdCompressionParameters.from_level(_LEVEL, **_PARAMETERS)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(content)


def decompress(frame: bytes | memoryview, most_bytes: int) -> bytes:
    """The content of one zstd frame that declares its size, and declares at most `most_bytes`.

    No more than the declared size is ever allocated. Raises LimitError, DamagedError.
    """
    import zstandard

    size = _declared_size(frame, most_bytes)
    if size == 0:
        return b""
    try:
        raw = zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False)
    except (zstandard.ZstdError, MemoryError) as error:
        raise DamagedError(f"a frame cannot be read: {error}") from error
    if len(raw) != size:
        raise DamagedError(f"a frame declares {size} bytes and holds {len(raw)}")
    return raw


def decompress_into(frame: bytes | memoryview, buffer: memoryview) -> int:
    """Fill `buffer` from its start with the content of one zstd frame; how many bytes that are.

    Raises LimitError if the frame declares more than fits, DamagedError if it is damaged.
    """
    import zstandard

    size = _declared_size(frame, len(buffer))
    try:
        filled = zstandard.ZstdDecompressor().stream_reader(frame).readinto(buffer[:size])
    except (zstandard.ZstdError, MemoryError) as error:
        raise DamagedError(f"a frame cannot be read: {error}") from error
    if filled != size:
        raise DamagedError(f"a frame declares {size} bytes and holds {filled}")
    return size


def _declared_size(frame: bytes | memoryview, most_bytes: int) -> int:
    import zstandard

    try:
        size = zstandard.frame_content_size(frame)
    except zstandard.ZstdError as error:
        raise DamagedError(f"a frame cannot be read: {error}") from error
    if size < 0:
        raise DamagedError("a frame does not declare its size")
    if size > most_bytes:
        raise LimitError(f"a frame declares {size} bytes, more than {most_bytes}")
    return size
