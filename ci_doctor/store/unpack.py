# SPDX-License-Identifier: Apache-2.0
"""Acts on a stage: fetches frames from a store, verifies each by its digest, and writes their files.

What is verified is the frame as it is stored: the decompressor never gets a byte that the manifest
did not promise. A file's own digest is for looking at what was installed, later.
"""

from collections.abc import Callable
from concurrent.futures import as_completed
from typing import Final

from ci_doctor.store.deadline import Deadline
from ci_doctor.store.digest import digest
from ci_doctor.store.errors import DamagedError
from ci_doctor.store.fetch_plan import FetchPlan, Run
from ci_doctor.store.layout import pack_name
from ci_doctor.store.manifest import FRAME_BYTES, FileEntry, Manifest, StoredFrame, decompress_into
from ci_doctor.store.objects import ObjectStore
from ci_doctor.store.staging import Stage
from ci_doctor.store.threads import ThreadBuffer, few_threads, thread_buffer

_THREADS: Final = 2


class Unpacking:
    """The files of one manifest on their way from a store into a stage."""

    def __init__(
        self,
        store: ObjectStore,
        manifest: Manifest,
        stage: Stage,
        rewrite: Callable[[str, bytes], bytes] | None,
        deadline: Deadline,
    ) -> None:
        self._store = store
        self._manifest = manifest
        self._stage = stage
        self._write = _writer(stage, rewrite)
        self._deadline = deadline

    def all(self, plan: FetchPlan) -> int:
        """Write all files of `plan`; the bytes that were fetched.

        Raises StoreError from the store or if time is up, DamagedError if a frame is not what the
        manifest says, OSError if it cannot be written. A file of several frames is not rewritten.
        """
        with few_threads(_THREADS) as workers:
            for entry in plan.empty:
                self._write(entry, b"")
            futures = [workers.submit(self._large, entry) for entry in plan.large]
            futures += [workers.submit(self._run, run, plan.by_frame) for run in plan.runs]
            return sum(future.result() for future in as_completed(futures))

    def _run(self, run: Run, by_frame: dict[int, list[FileEntry]]) -> int:
        self._deadline.check("restoring")
        fetched = self._fetch(run.pack, run.offset, run.bytes)
        for index in run.frames:
            frame = self._manifest.frames[index]
            start = frame.offset - run.offset
            raw = self._content(frame, fetched[start : start + frame.bytes])
            for entry in by_frame[index]:
                begin = entry.pieces[0].offset
                self._write(entry, raw[begin : begin + entry.bytes])
        return len(fetched)

    def _large(self, entry: FileEntry) -> int:
        frames = [self._manifest.frames[piece.frame] for piece in entry.pieces]
        parts = (self._content(frame, self._fetch_frame(frame)) for frame in frames)
        self._stage.write_parts(entry, parts)
        return sum(frame.bytes for frame in frames)

    def _fetch_frame(self, frame: StoredFrame) -> memoryview:
        self._deadline.check("restoring")
        return self._fetch(frame.pack, frame.offset, frame.bytes)

    def _fetch(self, pack: int, offset: int, length: int) -> memoryview:
        """A part of a pack, in a buffer that is this thread's until it fetches again."""
        buffer = thread_buffer(ThreadBuffer.STORED, length)
        self._store.read_range(self._name(pack), offset, buffer)
        return buffer

    def _content(self, frame: StoredFrame, stored: memoryview) -> memoryview:
        """What the frame holds, in a buffer that is this thread's until the next frame."""
        if digest(stored) != frame.digest:
            raise DamagedError(
                f"{self._name(frame.pack)} is damaged: a frame has another digest than in the manifest"
            )
        buffer = thread_buffer(ThreadBuffer.RAW, FRAME_BYTES)[: frame.raw_bytes]
        size = decompress_into(stored, buffer)
        if size != frame.raw_bytes:
            raise DamagedError(f"a frame holds {size} bytes instead of {frame.raw_bytes}")
        return buffer

    def _name(self, pack: int) -> str:
        reference = self._manifest.packs[pack]
        return pack_name(reference.scope, reference.digest)


def _writer(
    stage: Stage, rewrite: Callable[[str, bytes], bytes] | None
) -> Callable[[FileEntry, bytes | memoryview], None]:
    """The function that writes a file, with the content that is right for this place."""
    if rewrite is None:
        return stage.write

    def write(entry: FileEntry, content: bytes | memoryview) -> None:
        old = bytes(content)
        new = rewrite(entry.path, old)
        # Another content with the same time and, maybe, the same size would pass for the saved one.
        stage.write(entry, new, own_time=new != old)

    return write
