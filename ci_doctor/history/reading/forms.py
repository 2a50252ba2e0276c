# SPDX-License-Identifier: Apache-2.0
"""Pure. The bytes of a file -> what it says, whichever form it has."""

import codecs
from typing import Final

import msgspec

from ci_doctor.errors import UsageError
from ci_doctor.history.evidence import ParsedEvidence
from ci_doctor.history.reading.junit import ROOTS, read_junit, root_of
from ci_doctor.history.reading.own_report import (
    RECORD_SCHEMAS,
    REPORT_SCHEMAS,
    read_record,
    read_report,
)

_LONGEST_ROOT: Final = 80
_BOM: Final = codecs.BOM_UTF8
# Of XML in UTF-16 and UTF-32, with a mark of the order of the bytes and without one.
_WIDE: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"\0<", b"\0\0\0<", b"\0\0\xfe\xff")


class OtherXmlError(UsageError):
    """The file is XML, and no JUnit: a report about something else, as of coverage."""


def parsed(content: bytes) -> ParsedEvidence | None:
    """What the file says; None if it is JSON of something else, or neither JSON nor XML.

    Raises UsageError if it is empty, damaged, or refused for what it holds, and OtherXmlError for XML
    of something else.
    """
    if content.startswith(_WIDE):
        return _xml(content)
    start = content.removeprefix(_BOM).lstrip()[:1]
    if not start:
        raise UsageError("it is empty")
    if start == b"<":
        return _xml(content)
    if start in (b"{", b"["):
        return _json(content)
    return None


def _xml(content: bytes) -> ParsedEvidence | None:
    root = root_of(content)
    if root not in ROOTS:
        raise OtherXmlError(
            f"its root is <{root[:_LONGEST_ROOT]}>, and not <testsuites> or <testsuite>"
        )
    return read_junit(content)


def _json(content: bytes) -> ParsedEvidence | None:
    try:
        raw = msgspec.json.decode(content.removeprefix(_BOM))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(f"it is not JSON: {error}") from error
    except RecursionError as error:
        raise UsageError("it is nested too deep") from error
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if isinstance(schema, str) and schema.startswith(REPORT_SCHEMAS):
        return read_report(content)
    if isinstance(schema, str) and schema.startswith(RECORD_SCHEMAS):
        return read_record(raw)
    return None
