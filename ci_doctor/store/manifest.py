# SPDX-License-Identifier: Apache-2.0
"""Pure. A manifest: what a saved tree was made for, its files, where their bytes are, and whether it may be restored."""

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Final, Self

import msgspec

from ci_doctor.decodable import decodable
from ci_doctor.store.objects import DamagedError, LimitError, StoreLimits

# --- a manifest: what a saved tree was made for, its files, and where their bytes are ---
# Stored as JSON in one zstd frame. The structs of which there are thousands are arrays in it.

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


class Manifest(ManifestHeader, frozen=True, kw_only=True):
    """A saved tree: the header's fields, the packs, the frames in them, and the files."""

    schema: int
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


# --- the names of objects in a store (schema 1) ---
# v1/<scope>/packs/<2 hex>/<digest>.pack
# v1/<scope>/manifests/<family>/<hard>/<created ms, 13 digits>-<sha256>.json.zst, and the same with .sig

VERSION: Final = "v1"
_MANIFEST: Final = re.compile(
    r"v1/(?P<scope>[^/]+)/manifests/(?P<family>[^/]+)/(?P<hard>[0-9a-f]{32})"
    r"/(?P<created>[0-9]{13})-(?P<sha256>[0-9a-f]{64})\.json\.zst",
    re.ASCII,
)
_PACK: Final = re.compile(
    r"v1/(?P<scope>[^/]+)/packs/[0-9a-f]{2}/(?P<digest>[0-9a-f]{64})\.pack", re.ASCII
)


MANIFEST_END: Final = ".json.zst"


class ManifestName(msgspec.Struct, frozen=True, kw_only=True):
    """What the name of a manifest says."""

    scope: str
    family: str
    hard: str
    created_ms: int
    sha256: str


def parse_manifest_name(name: str) -> ManifestName | None:
    """What `name` says; None if it is not the name of a manifest."""
    match = _MANIFEST.fullmatch(name)
    if match is None:
        return None
    return ManifestName(
        scope=match["scope"],
        family=match["family"],
        hard=match["hard"],
        created_ms=int(match["created"]),
        sha256=match["sha256"],
    )


def pack_name(scope: str, digest: str) -> str:
    """The name of the pack whose bytes have this digest (hex)."""
    return f"{VERSION}/{scope}/packs/{digest[:2]}/{digest}.pack"


class PackName(msgspec.Struct, frozen=True, kw_only=True):
    """What the name of a pack says."""

    scope: str
    digest: str


def parse_pack_name(name: str) -> PackName | None:
    """What `name` says; None if it is not the name of a pack."""
    match = _PACK.fullmatch(name)
    if match is None:
        return None
    return PackName(scope=match["scope"], digest=match["digest"])


def manifests_prefix(scope: str, family: str, hard: str) -> str:
    """The prefix of the names of all manifests of a family and a hard identity (32 hex digits)."""
    return f"{VERSION}/{scope}/manifests/{family}/{hard}/"


def manifest_name(scope: str, manifest: Manifest, sha256: str) -> str:
    """The name of a manifest whose stored bytes have this SHA-256 (hex)."""
    prefix = manifests_prefix(scope, manifest.family, manifest.hard.digest()[:32])
    return f"{prefix}{manifest.created_ms:013d}-{sha256}{MANIFEST_END}"


def signature_name(name: str) -> str:
    """The name of the signature over the manifest of this name."""
    return f"{name}.sig"


def check_name(name: str, manifest: Manifest, sha256: str) -> str:
    """The scope that `name` stands in, if manifest and digest agree with it.

    Raises DamagedError otherwise: a manifest copied under another name is no answer to a request.
    """
    parsed = parse_manifest_name(name)
    if parsed is None:
        raise DamagedError(f"{name} is not the name of a manifest")
    if manifest_name(parsed.scope, manifest, sha256) != name:
        raise DamagedError(f"{name} holds a manifest that belongs under another name")
    return parsed.scope


# --- which relative paths can stand in one tree, on any file system and without surprise ---

_COMPONENT_BYTES: Final = 255
MOST_COMPONENTS: Final = 128
_NO_NAMES: Final = frozenset({"", ".", ".."})
# No file of a cache has these: they deceive a reader of a message, or end a name early.
_BAD_CHARACTER: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_NOT_PLAIN: Final = "is no plain relative path"
_LONG_COMPONENT: Final = f"has a component of more than {_COMPONENT_BYTES} bytes"


def check_paths(paths: Iterable[str], limits: StoreLimits) -> None:
    """Raise LimitError unless all `paths` can stand in one tree.

    Two names that differ only in case are refused, because a file system may take them for one.
    """
    fault = path_fault(limits)
    for path in paths:
        reason = fault(path)
        if reason is not None:
            raise LimitError(f"{path[:200]!r} {reason}")


def path_fault(limits: StoreLimits) -> Callable[[str], str | None]:
    """A function that says what is wrong with a path, given those it saw before; None if nothing.

    There are many more files than directories, so what can be asked of a directory is asked once.
    """
    files: set[str] = set()
    folders = _Folders(files)
    shortest = min(_COMPONENT_BYTES, limits.path_bytes)

    def fault(path: str) -> str | None:
        folder, _, name = path.rpartition("/")
        if name in _NO_NAMES or path[0] == "/" or _BAD_CHARACTER.search(name) is not None:
            return _NOT_PLAIN
        reason = None
        if len(path) > shortest or not path.isascii():
            reason = _length_fault(path, name, limits)
        if reason is None and folder not in folders.exact:
            reason = folders.add(folder)
        if reason is not None:
            return reason
        folded = path.casefold()
        if folded in files:
            return "is another file's path, or differs from it only in case"
        if folded in folders.folded:
            return "is a directory of another file"
        files.add(folded)
        return None

    return fault


class _Folders:
    """The directories on the way to `files`, which holds folded paths: as they are written, and folded."""

    def __init__(self, files: set[str]) -> None:
        self.exact = {""}
        self.folded = {""}
        self._files = files

    def add(self, folder: str) -> str | None:
        """Enter `folder` and those above it; what is wrong with a file in it, if anything."""
        if folder.count("/") >= MOST_COMPONENTS - 1:
            return f"has more than {MOST_COMPONENTS} components"
        if _BAD_CHARACTER.search(folder) is not None:
            return _NOT_PLAIN
        return self._add(folder)

    def _add(self, folder: str) -> str | None:
        if folder in self.exact:
            return None
        folded = folder.casefold()
        if folded in self.folded:
            return "lies in a directory whose name differs from another's only in case"
        if folded in self._files:
            return "lies below another file"
        above, _, name = folder.rpartition("/")
        if name in _NO_NAMES:
            return _NOT_PLAIN
        if len(name.encode()) > _COMPONENT_BYTES:
            return _LONG_COMPONENT
        reason = self._add(above)
        if reason is None:
            self.exact.add(folder)
            self.folded.add(folded)
        return reason


def _length_fault(path: str, name: str, limits: StoreLimits) -> str | None:
    try:
        encoded = len(path.encode())
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    if encoded > limits.path_bytes:
        return f"has {encoded} bytes, more than {limits.path_bytes}"
    if len(name.encode()) > _COMPONENT_BYTES:
        return _LONG_COMPONENT
    return None


# --- whether a manifest may be restored at all: its limits, its paths, its references ---
# Anyone may have written a manifest of a shared store, so none of it is believed before all of this holds.

_SEGMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MOST_NS: Final = 2**62  # in the year 2116
# Of a cost: three years, and more of anything than a job has.
_MOST_S: Final = 1e8
_MOST: Final = 10**9
_MOST_GPUS: Final = 10**5
# What zstd makes of 4 MiB of noise (ZSTD_compressBound), generously.
MOST_FRAME_BYTES: Final = FRAME_BYTES + FRAME_BYTES // 128


def is_segment(text: str) -> bool:
    """Whether `text` can be one segment of an object's name, such as a scope or a family."""
    return _SEGMENT.fullmatch(text) is not None


def check_manifest(manifest: Manifest, limits: StoreLimits) -> None:
    """Raise LimitError if `manifest` holds too much, DamagedError if it contradicts itself.

    Nothing is read but the manifest. After it, each path is safe to join below a directory, and
    each piece lies in a frame that lies in a pack.
    """
    _check_counts(manifest, limits)
    for pack in manifest.packs:
        if not is_segment(pack.scope) or _DIGEST.fullmatch(pack.digest) is None:
            raise DamagedError("the manifest refers to a pack that has no proper name")
        if not 0 < pack.bytes <= PACK_BYTES:
            raise LimitError(f"a pack of {pack.bytes} bytes, more than {PACK_BYTES}")
    for frame in manifest.frames:
        _check_frame(frame, manifest)
    check_paths([entry.path for entry in manifest.files], limits)
    frames = manifest.frames
    for entry in manifest.files:
        _check_entry(entry, frames, limits)
    _check_ratio(manifest, limits)
    if manifest.cold is not None:
        # Raise DamagedError for a cost that no job has, such as one without end.
        is_cost = 0 <= manifest.cold.seconds <= _MOST_S
        if (
            not is_cost
            or not 0 <= manifest.cold.compiled <= _MOST
            or not 0 <= manifest.cold.gpus <= _MOST_GPUS
        ):
            raise DamagedError("the manifest names a cost that no job has")


def _check_counts(manifest: Manifest, limits: StoreLimits) -> None:
    files = len(manifest.files)
    content = manifest.bytes()
    if not is_segment(manifest.family):
        raise DamagedError("the manifest names no family")
    if files > limits.files:
        raise LimitError(f"the manifest has {files} files, more than {limits.files}")
    if content > limits.bytes:
        raise LimitError(f"the manifest has {content} bytes of files, more than {limits.bytes}")


def _check_ratio(manifest: Manifest, limits: StoreLimits) -> None:
    """Of frames that a file needs, each place counts once, whatever number of times it is listed."""
    content = manifest.bytes()
    frames = manifest.frames
    used = {piece.frame for entry in manifest.files for piece in entry.pieces}
    places = {
        (manifest.packs[frames[index].pack].digest, frames[index].offset): frames[index].bytes
        for index in used
    }
    stored = sum(places.values())
    # An honest tree may be of zeros; what fills no disk is no bomb.
    if content > max(limits.ratio * stored, limits.plain_bytes):
        raise LimitError(f"{content} bytes of files for {stored} stored: above 1:{limits.ratio}")


def _check_frame(frame: StoredFrame, manifest: Manifest) -> None:
    if not 0 <= frame.pack < len(manifest.packs):
        raise DamagedError("a frame lies in no pack")
    if frame.offset < 0 or frame.bytes <= 0:
        raise DamagedError("a frame has no place in its pack")
    if _DIGEST.fullmatch(frame.digest) is None:
        raise DamagedError("a frame has no digest")
    if frame.offset + frame.bytes > manifest.packs[frame.pack].bytes:
        raise DamagedError("a frame ends after its pack")
    if frame.bytes > MOST_FRAME_BYTES:
        raise LimitError(f"a frame of {frame.bytes} stored bytes, more than {MOST_FRAME_BYTES}")
    if not 0 < frame.raw_bytes <= FRAME_BYTES:
        raise LimitError(f"a frame of {frame.raw_bytes} bytes, more than {FRAME_BYTES}")


def _check_entry(entry: FileEntry, frames: tuple[StoredFrame, ...], limits: StoreLimits) -> None:
    if entry.bytes > limits.file_bytes:
        raise LimitError(f"{entry.path} has {entry.bytes} bytes, more than {limits.file_bytes}")
    if not 0 <= entry.mtime_ns <= _MOST_NS or _DIGEST.fullmatch(entry.digest) is None:
        raise DamagedError(f"{entry.path} has no proper time or digest")
    whole = len(entry.pieces) > 1
    content = 0
    for piece in entry.pieces:
        raw_bytes = frames[piece.frame].raw_bytes if 0 <= piece.frame < len(frames) else -1
        if piece.offset < 0 or piece.bytes <= 0 or piece.offset + piece.bytes > raw_bytes:
            raise DamagedError(f"{entry.path} has a piece outside its frame")
        # Else a frame could be asked for again and again, for a byte each time.
        if whole and piece.bytes != raw_bytes:
            raise DamagedError(f"{entry.path} has several pieces that are no whole frames")
        content += piece.bytes
    if content != entry.bytes:
        raise DamagedError(f"{entry.path} has {entry.bytes} bytes and pieces of {content}")
