# SPDX-License-Identifier: Apache-2.0
"""Reads ELF files: the build id that the linker wrote into them."""

import struct
from pathlib import Path
from typing import BinaryIO

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian: every machine that serves models
_NOTE = 4
_BUILD_ID = 3
_LIMIT = 1 << 16


def build_id(path: Path) -> str | None:
    """The build id in hex (NT_GNU_BUILD_ID, elf(5)); None if the file has none, or is damaged.

    Raises OSError.
    """
    try:
        return _build_id(path)
    except (ValueError, OverflowError, struct.error):  # offsets that no file has
        return None


def _build_id(path: Path) -> str | None:
    with path.open("rb") as file:
        head = file.read(64)
        if not head.startswith(_MAGIC) or len(head) < 64:
            return None
        # Of the ELF header: e_phoff, then e_phentsize and e_phnum.
        (offset,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        file.seek(offset)
        headers = file.read(size * count)
        if size < 56 or len(headers) < size * count:
            return None
        for start in range(0, len(headers), size):
            header = headers[start : start + size]
            (kind,) = struct.unpack_from("<I", header)
            if kind != _NOTE:
                continue
            build = _note(file, header)
            if build is not None:
                return build
    return None


def _note(file: BinaryIO, header: bytes) -> str | None:
    """The build id among the notes of one program header."""
    # p_offset and p_filesz.
    (offset,) = struct.unpack_from("<Q", header, 8)
    (length,) = struct.unpack_from("<Q", header, 32)
    file.seek(offset)
    notes = file.read(min(length, _LIMIT))
    start = 0
    while start + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, start)
        name = start + 12
        body = name + _aligned(name_size)
        if kind == _BUILD_ID and notes[name : name + 4] == b"GNU\0":
            return notes[body : body + size].hex() or None
        start = body + _aligned(size)
    return None


def _aligned(length: int) -> int:
    """Names and descriptors of notes are padded to four bytes."""
    return length + 3 & ~3
