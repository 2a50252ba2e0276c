# SPDX-License-Identifier: Apache-2.0
"""Acts on a store: gathers frames into packs and writes each while the next is gathered."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from ci_doctor.store.digest import RunningDigest
from ci_doctor.store.layout import pack_name
from ci_doctor.store.manifest import PACK_BYTES, PackReference, StoredFrame
from ci_doctor.store.objects import ObjectStore

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
        running = RunningDigest()
        for part in parts:
            running.update(part)
        pack = PackReference(
            scope=self._scope, digest=running.hexdigest(), bytes=sum(map(len, parts))
        )
        return pack, self._store.create(pack_name(pack.scope, pack.digest), *parts)
