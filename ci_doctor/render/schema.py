# SPDX-License-Identifier: Apache-2.0
"""Pure. The JSON Schema of a report, from its types; report.schema.json is the shipped text."""

import inspect
from typing import Any

import msgspec

from ci_doctor.model.report import SCHEMA, Report


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
