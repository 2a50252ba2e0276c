# SPDX-License-Identifier: Apache-2.0
"""Pure. The text of a file, so that it can be written again byte by byte."""

import codecs
from typing import Final

from msgspec import Struct

from ci_doctor.lint.unreadable import Unreadable

_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class SourceText(Struct, frozen=True, kw_only=True):
    """A file as its readers get it: decoded, without a byte order mark, with its own line ends.

    encoding: `utf-8`, or `latin-1` for bytes that are not UTF-8; it maps each byte to a character.
    """

    file: str
    text: str
    encoding: str = "utf-8"
    has_bom: bool = False

    def encoded(self, text: str) -> bytes:
        """`text` as the bytes of this file. Raises UnicodeEncodeError for what Latin-1 lacks."""
        mark = codecs.BOM_UTF8 if self.has_bom else b""
        return mark + text.encode(self.encoding)


def decoded(file: str, content: bytes) -> SourceText | Unreadable:
    """`content` as text; UTF-16 and binary content is unreadable for each program that runs it."""
    if content.startswith(_UTF16):
        return Unreadable(file=file, line=1, reason="it is UTF-16, which no shell reads")
    has_bom = content.startswith(codecs.BOM_UTF8)
    body = content.removeprefix(codecs.BOM_UTF8)
    place = body.find(b"\0")
    if place >= 0:
        line = body.count(b"\n", 0, place) + 1
        return Unreadable(file=file, line=line, reason="it holds a NUL byte, as binary files do")
    try:
        return SourceText(file=file, text=body.decode(), has_bom=has_bom)
    except UnicodeDecodeError:
        text = body.decode("latin-1")
        return SourceText(file=file, text=text, encoding="latin-1", has_bom=has_bom)
