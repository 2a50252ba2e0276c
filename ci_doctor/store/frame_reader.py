# SPDX-License-Identifier: Apache-2.0
"""Reads files into frames of at most 4 MiB: their bytes, digests, and places in the frame."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from ci_doctor.store.digest import RunningDigest, digest
from ci_doctor.store.manifest import FRAME_BYTES
from ci_doctor.store.walk import TreeFile
from ci_doctor.system.files.opening import open_at_once


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
    running = RunningDigest()
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
