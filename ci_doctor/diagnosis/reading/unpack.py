# SPDX-License-Identifier: Apache-2.0
"""Reads packed logs as pieces of plain bytes."""

from collections.abc import Iterator
from typing import BinaryIO, Protocol

from ci_doctor.diagnosis.reading.log_form import log_form
from ci_doctor.diagnosis.reading.unreadable import UnreadableLogError
from ci_doctor.model.distribution import install_extra

# A piece of packed data may become a thousand times as large: this bounds the memory.
_PACKED_BYTES = 4 * 1024


class DamagedLogError(Exception):
    """The packed data ends early or makes no sense; what came before it is good."""


class _Unpacker(Protocol):
    """What all of these libraries offer for one stream of data."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def unpacked(file: BinaryIO, packing: str) -> Iterator[bytes]:
    """What is packed in `file`; `packing` as in LogForm. One file may hold several streams.

    Raises DamagedLogError after the last good piece, and UnreadableLogError if a library is
    missing.
    """
    unpacker = _unpacker(packing)
    errors = _errors(packing)
    data = file.read(_PACKED_BYTES)
    while data:
        try:
            piece = unpacker.decompress(data)
        except errors as error:
            raise DamagedLogError(f"damaged {packing} data: {error}") from error
        if piece:
            yield piece
        if not unpacker.eof:
            data = file.read(_PACKED_BYTES)
            continue
        data = unpacker.unused_data + file.read(_PACKED_BYTES)
        # What follows is another stream, or padding.
        if log_form(data).packing != packing:
            return
        unpacker = _unpacker(packing)
    raise DamagedLogError(f"the {packing} data ends early")


def _unpacker(packing: str) -> _Unpacker:
    if packing == "gzip":
        import zlib

        return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    if packing == "xz":
        import lzma

        return lzma.LZMADecompressor()
    if packing == "bzip2":
        import bz2

        return bz2.BZ2Decompressor()
    return _zstd_unpacker()


def _zstd_unpacker() -> _Unpacker:
    try:
        import zstandard
    except ImportError as error:
        raise UnreadableLogError(
            f"packed by zstd: `{install_extra('fast-logs')}`, or unpack it with `zstd -d`"
        ) from error
    return zstandard.ZstdDecompressor().decompressobj()


def _errors(packing: str) -> tuple[type[Exception], ...]:
    """What the library of `packing` raises for damaged data."""
    if packing == "gzip":
        import zlib

        return (zlib.error,)
    if packing == "xz":
        import lzma

        return (lzma.LZMAError,)
    if packing == "bzip2":
        return (OSError, ValueError)
    import zstandard

    return (zstandard.ZstdError,)
