# SPDX-License-Identifier: Apache-2.0
"""Pure. From the first bytes of a file to how a log is stored in it."""

import codecs
import re

from msgspec import Struct

# Enough to see the form; a log is read from its start again afterwards.
HEAD_BYTES = 64 * 1024
# The magic numbers of gzip (RFC 1952), Zstandard (RFC 8878), xz and bzip2.
_PACKED = {
    b"\x1f\x8b\x08": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
}
# The first member of a zip; the magic number of a tar (POSIX.1-2001, ustar), and where it stands.
ZIP = b"PK\x03\x04"
_TAR = b"ustar"
_TAR_OFFSET = 257
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# Controls that no terminal program prints: not tab, newline, escape and their like.
_NOT_TEXT = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")


class LogForm(Struct, frozen=True, kw_only=True):
    """packing: "" for none. encoding: as Python names it. mark: bytes of the byte order mark.

    is_binary: it is no log at all.
    """

    packing: str = ""
    encoding: str = "utf-8"
    mark: int = 0
    is_binary: bool = False


def log_form(head: bytes) -> LogForm:
    """The form of what begins with `head`, at most HEAD_BYTES of it."""
    for magic, packing in _PACKED.items():
        if head.startswith(magic):
            return LogForm(packing=packing)
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return LogForm(encoding=encoding, mark=len(mark))
    encoding = _encoding_without_mark(head)
    return LogForm(encoding=encoding, is_binary=encoding == "utf-8" and _is_binary(head))


def _encoding_without_mark(head: bytes) -> str:
    """UTF-16 shows itself by the zero byte of nearly every character of a log."""
    even = head[0::2].count(0)
    odd = head[1::2].count(0)
    half = len(head) // 2
    if odd > 0.7 * half and even < 0.1 * half:
        return "utf-16-le"
    if even > 0.7 * half and odd < 0.1 * half:
        return "utf-16-be"
    return "utf-8"


def _is_binary(head: bytes) -> bool:
    """Whether more than a tenth are controls. NULs alone are no sign: a truncated log has them."""
    written = head.replace(b"\0", b"")
    if not written:
        return bool(head)
    controls = len(_NOT_TEXT.findall(written))
    if controls > len(written) / 10:
        return True
    # Packed data: controls are 8 % of it, and nearly nothing is valid UTF-8.
    invalid = written.decode(errors="replace").count("\ufffd")
    return controls > len(written) / 50 and invalid > len(written) / 5


def is_archive(head: bytes) -> bool:
    """Whether a file that begins with `head` is a tar or a zip, which may hold several logs."""
    return head.startswith(ZIP) or head[_TAR_OFFSET : _TAR_OFFSET + len(_TAR)] == _TAR
