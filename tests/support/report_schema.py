# SPDX-License-Identifier: Apache-2.0
"""Reads the shipped schema of report.json once, and what must fit it.

`jsonschema.validate` would judge the schema itself each time: 140 ms, where a report takes 9. That the schema is valid
is a test of its own (tests/unit/render/test_json.py).
"""

import json
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA = Path(__file__).parents[2] / "ci_doctor" / "render" / "report.schema.json"
_VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))


def checked_report(text: str) -> dict[str, Any]:
    """The report that `text` is. Raises jsonschema.ValidationError if it does not fit the schema."""
    report: dict[str, Any] = json.loads(text)
    _VALIDATOR.validate(report)
    return report
