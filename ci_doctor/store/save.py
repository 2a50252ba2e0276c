# SPDX-License-Identifier: Apache-2.0
"""Acts on a store: saves a directory tree as packs and, when all of them are there, its manifest."""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

import msgspec

from ci_doctor.store.manifest import (
    FRAME_BYTES,
    PACK_BYTES,
    FileEntry,
    FilePiece,
    Manifest,
    ManifestHeader,
    PackReference,
    StoredFrame,
    check_manifest,
    compress,
    encode,
    is_segment,
    manifest_name,
    pack_name,
    signature_name,
)
from ci_doctor.store.objects import (
    ObjectStore,
    StoreError,
    StoreFailure,
    StoreLimits,
    file_system_error,
)
from ci_doctor.store.plan import PackedFiles, assemble
from ci_doctor.store.transfer import (
    Deadline,
    ThreadBuffer,
    digest,
    few_threads,
    running_digest,
    thread_buffer,
)
from ci_doctor.store.walk import TreeFile, WalkedTree, changed, reusable, settled, walk
from ci_doctor.system.files.access import open_at_once

# --- their bytes, digests, and places in the frame ---


class FrameFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A file that was read: its digest (hex), and where its bytes begin in its frame."""

    file: TreeFile
    digest: str
    offset: int


class RawFrame(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a frame's content, the files that lie in it whole, and those that changed meanwhile."""

    bytes: int
    placed: tuple[FrameFile, ...] = ()
    changed: tuple[str, ...] = ()


def batches(files: Iterable[TreeFile]) -> Iterator[list[TreeFile]]:
    """Files for one frame each, by extension and then path: similar files compress each other.

    A file larger than a frame is a batch by itself.
    """
    batch: list[TreeFile] = []
    size = 0
    for file in sorted(files, key=_similarity):
        if batch and size + file.bytes > FRAME_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.bytes
    if batch:
        yield batch


def read_batch(root: int, batch: Sequence[TreeFile], buffer: memoryview) -> RawFrame:
    """Read the files of `batch` below the open directory `root` into `buffer`, one after another."""
    placed: list[FrameFile] = []
    changed: list[str] = []
    offset = 0
    for file in batch:
        view = buffer[offset : offset + file.bytes]
        if not _read_whole(root, file, view):
            changed.append(file.path)
            continue
        placed.append(FrameFile(file=file, digest=digest(view), offset=offset))
        offset += file.bytes
    return RawFrame(bytes=offset, placed=tuple(placed), changed=tuple(changed))


def read_large(root: int, file: TreeFile, add: Callable[[bytes], None]) -> str | None:
    """Hand the content to `add` in parts of 4 MiB; its digest (hex), or None if the file changed."""
    try:
        # What was a file at the walk may be a FIFO now.
        descriptor = open_at_once(file.path, follow=False, dir_fd=root)
    except OSError:
        return None
    running = running_digest()
    left = file.bytes
    try:
        while left:
            part = _read(descriptor, min(left, FRAME_BYTES))
            if not part:
                return None
            left -= len(part)
            running.update(part)
            add(part)
        same = file.is_same(os.fstat(descriptor))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return running.hexdigest() if same else None


def _read_whole(root: int, file: TreeFile, view: memoryview) -> bool:
    """Fill `view`; False if the file is not what it was at the walk."""
    try:
        # What was a file at the walk may be a FIFO now.
        descriptor = open_at_once(file.path, follow=False, dir_fd=root)
    except OSError:
        return False
    try:
        left = view
        while left and (count := os.readv(descriptor, [left])):
            left = left[count:]
        return not left and file.is_same(os.fstat(descriptor))
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _read(descriptor: int, length: int) -> bytes:
    """`length` bytes, or fewer at the end of the file."""
    content = os.read(descriptor, length)
    if len(content) == length:
        return content
    parts = [content]
    left = length - len(content)
    while left and (part := os.read(descriptor, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _similarity(file: TreeFile) -> tuple[str, str]:
    name = file.path.rpartition("/")[2]
    return (name.rpartition(".")[2] if "." in name else "", file.path)


# --- gathers frames into packs and writes each while the next is gathered ---

_WRITTEN_BYTES: Final = PACK_BYTES // 2


class PackWriter:
    """Packs of one scope. Two are in memory: the one that is gathered, and the one on its way.

    Their frames are never joined here: that would cost more than the digest.
    """

    def __init__(self, store: ObjectStore, scope: str, upload: ThreadPoolExecutor) -> None:
        self.frames: list[StoredFrame] = []
        self.packs: list[PackReference] = []
        self.new_bytes = 0
        self._store = store
        self._scope = scope
        self._upload = upload
        self._parts: list[bytes] = []
        self._size = 0
        self._count = 0
        self._pending: Future[tuple[PackReference, bool]] | None = None

    def add(self, frame: bytes, raw_bytes: int, digest_of_frame: str) -> int:
        """Append a compressed frame and its digest; its index. StoreError if an earlier pack failed."""
        if self._size + len(frame) > _WRITTEN_BYTES:
            self._flush()
        place = StoredFrame(
            pack=self._count,
            offset=self._size,
            bytes=len(frame),
            raw_bytes=raw_bytes,
            digest=digest_of_frame,
        )
        self.frames.append(place)
        self._parts.append(frame)
        self._size += len(frame)
        return len(self.frames) - 1

    def finish(self) -> None:
        """Write what is left, and wait until all packs are in the store. Raises StoreError."""
        if self._size:
            self._flush()
        self._wait()

    def _flush(self) -> None:
        self._wait()
        self._pending = self._upload.submit(self._create, self._parts)
        self._parts = []
        self._size = 0
        self._count += 1

    def _wait(self) -> None:
        if self._pending is None:
            return
        pack, is_new = self._pending.result()
        self.packs.append(pack)
        self.new_bytes += pack.bytes if is_new else 0
        self._pending = None

    def _create(self, parts: list[bytes]) -> tuple[PackReference, bool]:
        running = running_digest()
        for part in parts:
            running.update(part)
        pack = PackReference(
            scope=self._scope, digest=running.hexdigest(), bytes=sum(map(len, parts))
        )
        return pack, self._store.create(pack_name(pack.scope, pack.digest), *parts)


# --- packs files into frames, read and compressed by two threads at a time ---

_THREADS: Final = 2
_AHEAD: Final = 4


class PackedTree(msgspec.Struct, frozen=True, kw_only=True):
    """What was packed, the paths that changed meanwhile, and the bytes that the store did not have."""

    packed: PackedFiles
    changed: frozenset[str]
    new_bytes: int


class _CompressedFrame(msgspec.Struct, frozen=True, kw_only=True):
    content: bytes
    raw_bytes: int
    digest: str
    raw: RawFrame | None = None


def pack_files(
    store: ObjectStore, scope: str, root: int, files: Iterable[TreeFile], deadline: Deadline
) -> PackedTree:
    """Pack `files` below the open directory `root`. Raises StoreError, also if time is up."""
    with few_threads(1) as upload, few_threads(_THREADS) as workers:
        packing = _Packing(root, PackWriter(store, scope, upload), workers, deadline)
        for batch in batches(files):
            if batch[0].bytes > FRAME_BYTES:
                packing.add_large(batch[0])
            else:
                packing.add_batch(batch)
        return packing.finish()


class _Packing:
    """Frames on their way through the threads, taken in the order in which they were begun."""

    def __init__(
        self, root: int, writer: PackWriter, workers: ThreadPoolExecutor, deadline: Deadline
    ) -> None:
        self._root = root
        self._writer = writer
        self._workers = workers
        self._deadline = deadline
        self._entries: list[FileEntry] = []
        self._changed: set[str] = set()
        self._ahead: deque[tuple[Future[_CompressedFrame], Callable[[_CompressedFrame], None]]] = (
            deque()
        )

    def add_batch(self, batch: list[TreeFile]) -> None:
        future = self._workers.submit(_read_and_compress, self._root, batch)
        self._begin(future, self._place)

    def add_large(self, file: TreeFile) -> None:
        pieces: list[FilePiece] = []

        def place(frame: _CompressedFrame) -> None:
            index = self._writer.add(frame.content, frame.raw_bytes, frame.digest)
            pieces.append(FilePiece(frame=index, offset=0, bytes=frame.raw_bytes))

        def add(part: bytes) -> None:
            self._begin(self._workers.submit(_compress_part, part), place)

        whole = read_large(self._root, file, add)
        self._take(0)
        if whole is None:
            self._changed.add(file.path)
        else:
            self._entries.append(_entry(file, whole, tuple(pieces)))

    def finish(self) -> PackedTree:
        self._take(0)
        self._writer.finish()
        packed = PackedFiles(
            files=self._entries, frames=self._writer.frames, packs=self._writer.packs
        )
        changed = frozenset(self._changed)
        return PackedTree(packed=packed, changed=changed, new_bytes=self._writer.new_bytes)

    def _begin(
        self, future: Future[_CompressedFrame], place: Callable[[_CompressedFrame], None]
    ) -> None:
        self._ahead.append((future, place))
        self._take(_AHEAD)

    def _take(self, left: int) -> None:
        while len(self._ahead) > left:
            self._deadline.check("saving")
            future, place = self._ahead.popleft()
            place(future.result())

    def _place(self, frame: _CompressedFrame) -> None:
        if frame.raw is None:
            return
        self._changed.update(frame.raw.changed)
        index = -1
        if frame.raw_bytes:
            index = self._writer.add(frame.content, frame.raw_bytes, frame.digest)
        for each in frame.raw.placed:
            piece = FilePiece(frame=index, offset=each.offset, bytes=each.file.bytes)
            pieces = (piece,) if each.file.bytes else ()
            self._entries.append(_entry(each.file, each.digest, pieces))


def _read_and_compress(root: int, batch: list[TreeFile]) -> _CompressedFrame:
    buffer = thread_buffer(ThreadBuffer.RAW, FRAME_BYTES)
    raw = read_batch(root, batch, buffer)
    return msgspec.structs.replace(_compress_part(buffer[: raw.bytes]), raw=raw)


def _compress_part(part: bytes | memoryview) -> _CompressedFrame:
    content = compress(part) if part else b""
    return _CompressedFrame(content=content, raw_bytes=len(part), digest=digest(content))


def _entry(file: TreeFile, content_digest: str, pieces: tuple[FilePiece, ...]) -> FileEntry:
    return FileEntry(
        path=file.path,
        bytes=file.bytes,
        mode=file.mode,
        mtime_ns=file.mtime_ns,
        digest=content_digest,
        pieces=pieces,
    )


_CHANGED: Final = "changed while it was saved"


class ManifestSigner(Protocol):
    """Makes signatures over the stored bytes of a manifest."""

    def sign(self, message: bytes) -> str:
        """An armored SSHSIG over `message`."""


class SaveRules(msgspec.Struct, frozen=True, kw_only=True):
    """How a tree is saved. Paths given to the functions are relative, with "/".

    `parent` is an earlier manifest that the caller trusts as it trusts this tree: what it says of a
    file of the same size and time (ns) is taken over, and signed, without reading the file.
    `group` names what belongs together: if one file of a group changes, all of it is left out.
    """

    scope: str
    deadline: Deadline
    parent: Manifest | None = None
    exclude: Callable[[str], bool] = lambda _path: False
    group: Callable[[str], str] = lambda path: path
    signer: ManifestSigner | None = None
    limits: StoreLimits = StoreLimits()


class SavedTree(msgspec.Struct, frozen=True, kw_only=True):
    """What was saved. `skipped` holds paths and reasons; all sizes are in bytes.

    `new_bytes` is of files that no earlier manifest held, `stored_bytes` what the store received.
    `created` is False if a manifest of that very name was there already.
    """

    manifest_name: str
    files: int
    bytes: int
    new_bytes: int
    stored_bytes: int
    skipped: tuple[tuple[str, str], ...]
    created: bool


def save_tree(
    store: ObjectStore, tree: Path, header: ManifestHeader, rules: SaveRules
) -> SavedTree:
    """Save `tree` for readers of `rules.scope`, and say what was left out.

    Raises StoreError if the tree cannot be read or holds nothing, if the store fails, or if time is
    up; LimitError if readers would refuse the tree. Then no manifest was written.
    """
    if not is_segment(rules.scope) or not is_segment(header.family):
        message = f"{rules.scope!r} or {header.family!r} cannot be part of an object's name"
        raise StoreError(StoreFailure.REFUSED, message, hint="use letters, digits, . _ and -")
    try:
        root = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise file_system_error("read", tree, error) from error
    try:
        gathered = _gather(store, root, rules)
        manifest = assemble(header, gathered.parts)
        name, stored, created = _publish(store, manifest, rules)
        return SavedTree(
            manifest_name=name,
            files=len(manifest.files),
            bytes=manifest.bytes(),
            new_bytes=gathered.new_bytes,
            stored_bytes=gathered.stored_bytes + stored,
            skipped=tuple(sorted(gathered.skipped.items())),
            created=created,
        )
    except OSError as error:
        raise file_system_error("save", tree, error) from error
    finally:
        os.close(root)


class _TreeContent(msgspec.Struct, frozen=True, kw_only=True):
    """What of a tree goes into a manifest, and what does not; sizes are in bytes."""

    parts: tuple[PackedFiles, ...]
    skipped: dict[str, str]
    new_bytes: int
    stored_bytes: int


def _gather(store: ObjectStore, root: int, rules: SaveRules) -> _TreeContent:
    """Pack what is new. The walk's records end with this function, before a manifest is made of 200,000 files."""

    def look() -> WalkedTree:
        return walk(root, rules.exclude, rules.limits)

    tree, busy = settled(look, rules.deadline)
    rules.deadline.check("saving")
    files = [file for file in tree.files if file.path not in busy]
    kept = reusable(files, rules.parent, rules.scope)
    to_read = [file for file in files if file.path not in kept]
    result = pack_files(store, rules.scope, root, to_read, rules.deadline)
    late = busy | result.changed | changed(root, files)
    left_out = _with_groups(late, (file.path for file in tree.files), rules.group)
    new = [entry for entry in result.packed.files if entry.path not in left_out]
    parts = [msgspec.structs.replace(result.packed, files=new)]
    if rules.parent is not None:
        old = [
            _with_mode(kept[file.path], file.mode)
            for file in files
            if file.path in kept and file.path not in left_out
        ]
        parts.append(_of_parent(old, rules.parent))
    return _TreeContent(
        parts=tuple(parts),
        skipped={**dict(tree.skipped), **left_out},
        new_bytes=sum(entry.bytes for entry in new),
        stored_bytes=result.new_bytes,
    )


def _with_mode(entry: FileEntry, mode: int) -> FileEntry:
    return entry if entry.mode == mode else msgspec.structs.replace(entry, mode=mode)


def _of_parent(entries: list[FileEntry], parent: Manifest) -> PackedFiles:
    return PackedFiles(files=entries, frames=parent.frames, packs=parent.packs)


def _with_groups(
    late: frozenset[str], paths: Iterable[str], group: Callable[[str], str]
) -> dict[str, str]:
    """The paths to leave out, with reasons: those that changed, and all of their groups."""
    groups = {group(path) for path in late}
    if not groups:
        return {}
    reasons = {
        path: f"belongs to a file that {_CHANGED}" for path in paths if group(path) in groups
    }
    return {**reasons, **dict.fromkeys(late, _CHANGED)}


def _publish(store: ObjectStore, manifest: Manifest, rules: SaveRules) -> tuple[str, int, bool]:
    """Write signature and manifest; the name, the bytes written, and whether it is a new one.

    The signature comes first, so that nobody finds a manifest that has none yet.
    """
    if not manifest.files:
        message = f"{manifest.root} holds no file that can be saved"
        raise StoreError(StoreFailure.MISSING, message)
    check_manifest(manifest, rules.limits)
    rules.deadline.check("saving")
    content = encode(manifest)
    name = manifest_name(rules.scope, manifest, hashlib.sha256(content).hexdigest())
    written = 0
    if rules.signer is not None:
        signature = rules.signer.sign(content).encode()
        written += len(signature) if store.create(signature_name(name), signature) else 0
    created = store.create(name, content)
    return name, written + (len(content) if created else 0), created
