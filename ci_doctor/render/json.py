# SPDX-License-Identifier: Apache-2.0
"""Pure. Report <-> JSON, the form that programs read (docs/report.md, report.schema.json)."""

import inspect
from typing import Any

import msgspec

from ci_doctor.decodable import decodable
from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import SCHEMA, Report
from ci_doctor.render.formatting import encodable

_HINT = "give the report.json that a ci-doctor command wrote"


def render(report: Report) -> str:
    """`report` as indented JSON, with a newline at the end.

    Fields are in the order of the schema, the keys of `facts` sorted.
    """
    try:
        encoded = msgspec.json.encode(report, order="deterministic")
    except UnicodeEncodeError:  # a path or a log line that was not UTF-8
        encoded = msgspec.json.encode(encodable(report), order="deterministic")
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def parse(text: str | bytes) -> Report:
    """The report that `render` wrote as `text`; fields unknown to this version are left out.

    Raises UsageError if it is not JSON, not a report, or a report in a form that this version does
    not read.
    """
    try:
        raw = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(f"the report is not JSON: {error}", hint=_HINT) from error
    schema = None
    if isinstance(raw, dict):
        schema = raw.get("schema")
    if not isinstance(schema, str):
        raise UsageError(
            f"this JSON is not a report: it has no `schema` such as {SCHEMA!r}", hint=_HINT
        )
    if schema != SCHEMA:
        raise UsageError(
            f"the report's schema is {schema!r}; this ci-doctor reads {SCHEMA!r}",
            hint="use the version of ci-doctor that wrote it (`tool_version` names it)",
        )
    try:
        return msgspec.convert(raw, decodable(Report))
    except msgspec.ValidationError as error:
        raise UsageError(f"the report does not fit its schema: {error}", hint=_HINT) from error


def report_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) for the output of `ci_doctor.render.json.render`."""
    schema = msgspec.json.schema(Report)
    definitions: dict[str, Any] = schema["$defs"]
    for definition in definitions.values():
        # Up to Python 3.12 a docstring keeps its indentation; the schema must not depend on the
        # version that wrote it.
        definition["description"] = inspect.cleandoc(definition["description"])
    # It has a default for writers; a reader may insist on it.
    definitions["Report"]["required"].insert(0, "schema")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": SCHEMA, **schema}


def schema_text() -> str:
    """`report_schema()` as the text of the shipped file."""
    return msgspec.json.format(msgspec.json.encode(report_schema()), indent=2).decode() + "\n"
