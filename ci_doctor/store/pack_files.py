# SPDX-License-Identifier: Apache-2.0
"""Acts on a store: packs files into frames, read and compressed by two threads at a time."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import msgspec

from ci_doctor.store.assemble import PackedFiles
from ci_doctor.store.deadline import Deadline
from ci_doctor.store.digest import digest
from ci_doctor.store.frame_reader import RawFrame, batches, read_batch, read_large
from ci_doctor.store.manifest import FRAME_BYTES, FileEntry, FilePiece, compress
from ci_doctor.store.objects import ObjectStore
from ci_doctor.store.pack_writer import PackWriter
from ci_doctor.store.threads import ThreadBuffer, few_threads, thread_buffer
from ci_doctor.store.walk import TreeFile

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
