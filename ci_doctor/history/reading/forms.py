# SPDX-License-Identifier: Apache-2.0
"""Pure. The bytes of a file -> what it says, whichever form it has."""

import codecs
from collections.abc import Callable
from typing import Any, Final

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
from ci_doctor.history.reading.pytest_json import (
    is_json_report,
    read_json_report,
    read_report_log,
)
from ci_doctor.history.reading.test_engine_json import is_test_engine, read_test_engine

_LONGEST_ROOT: Final = 80
_LOG_TYPE: Final = b'"$report_type"'
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
    first_line, _, _ = content.partition(b"\n")
    if _LOG_TYPE in first_line:
        return _of_strangers(_report_log, content)
    raw = _decoded(content.removeprefix(_BOM))
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if isinstance(schema, str) and schema.startswith(REPORT_SCHEMAS):
        return read_report(content)
    if isinstance(schema, str) and schema.startswith(RECORD_SCHEMAS):
        return read_record(raw)
    if is_json_report(raw):
        return _of_strangers(read_json_report, raw)
    if is_test_engine(raw):
        return _of_strangers(read_test_engine, raw)
    return None


def _of_strangers(read: Callable[[Any], ParsedEvidence], raw: Any) -> ParsedEvidence:
    """What `read` makes of `raw`. No schema has proven the types of its values."""
    try:
        return read(raw)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"it is not of the form that it begins with: {error}") from error


def _report_log(content: bytes) -> ParsedEvidence:
    lines = []
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        raw = _decoded(line, f" in line {number}")
        if isinstance(raw, dict):
            lines.append(raw)
    return read_report_log(lines)


def _decoded(content: bytes, place: str = "") -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(f"it is not JSON{place}: {error}") from error
    except RecursionError as error:
        raise UsageError(f"it is nested too deep{place}") from error
