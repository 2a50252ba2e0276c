# SPDX-License-Identifier: Apache-2.0
"""Reads files into frames of at most 4 MiB: their bytes, digests, and places in the frame."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from ci_doctor.store.manifest import FRAME_BYTES
from ci_doctor.store.walk import TreeFile

# O_NONBLOCK: what was a file at the walk may be a FIFO now.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class PlacedFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A file that was read: its SHA-256 (hex), and where its bytes begin in its frame."""

    file: TreeFile
    sha256: str
    offset: int


class RawFrame(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a frame, the files that lie in it whole, and those that changed meanwhile."""

    content: bytes
    placed: tuple[PlacedFile, ...] = ()
    changed: tuple[str, ...] = ()


def batches(files: Iterable[TreeFile]) -> Iterator[list[TreeFile]]:
    """Files for one frame each, by extension and then path: similar files compress each other.

    A file larger than a frame is a batch by itself.
    """
    batch: list[TreeFile] = []
    size = 0
    for file in sorted(files, key=lambda file: (_extension(file.path), file.path)):
        if batch and size + file.bytes > FRAME_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.bytes
    if batch:
        yield batch


def read_batch(root: int, batch: Sequence[TreeFile]) -> RawFrame:
    """One frame with the files of `batch`, read below the open directory `root`."""
    parts: list[bytes] = []
    placed: list[PlacedFile] = []
    changed: list[str] = []
    offset = 0
    for file in batch:
        content = _read_whole(root, file)
        if content is None:
            changed.append(file.path)
            continue
        digest = hashlib.sha256(content).hexdigest()
        placed.append(PlacedFile(file=file, sha256=digest, offset=offset))
        parts.append(content)
        offset += len(content)
    return RawFrame(content=b"".join(parts), placed=tuple(placed), changed=tuple(changed))


def read_large(root: int, file: TreeFile, add: Callable[[bytes], None]) -> str | None:
    """Hand the content to `add` in parts of 4 MiB; its SHA-256 (hex), or None if the file changed."""
    try:
        descriptor = os.open(file.path, _READ, dir_fd=root)
    except OSError:
        return None
    digest = hashlib.sha256()
    left = file.bytes
    try:
        while left:
            part = _read(descriptor, min(left, FRAME_BYTES))
            if not part:
                return None
            left -= len(part)
            digest.update(part)
            add(part)
        same = TreeFile.of(file.path, os.fstat(descriptor)) == file
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return digest.hexdigest() if same else None


def _read_whole(root: int, file: TreeFile) -> bytes | None:
    """The content, or None if the file is not what it was at the walk."""
    try:
        descriptor = os.open(file.path, _READ, dir_fd=root)
    except OSError:
        return None
    try:
        content = _read(descriptor, file.bytes)
        same = TreeFile.of(file.path, os.fstat(descriptor)) == file
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return content if same and len(content) == file.bytes else None


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


def _extension(path: str) -> str:
    name = path.rpartition("/")[2]
    return name.rpartition(".")[2] if "." in name else ""
