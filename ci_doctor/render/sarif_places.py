# SPDX-License-Identifier: Apache-2.0
"""Pure. Places and levels in the words of SARIF 2.1.0."""

from typing import Any, Final
from urllib.parse import quote

from ci_doctor.model.finding import Severity
from ci_doctor.render.safe_text import one_line

LEVELS: Final = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.NOTE: "note",
}


def location(
    file: str, line: int | None, end_line: int | None = None, *, column: int | None = None
) -> dict[str, Any]:
    """A `location` object: lines and columns are 1-based, `end_line` is inclusive."""
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(file)}}
    if line is not None and line > 0:
        region = {"startLine": line}
        if column is not None and column > 0:
            region["startColumn"] = column
        if end_line is not None and end_line > line:
            region["endLine"] = end_line
        physical["region"] = region
    return {"physicalLocation": physical}


def _uri(file: str) -> str:
    """A path as a URI reference (RFC 3986): an absolute one as a file's, another one as it is."""
    path = quote(one_line(file).replace("\\", "/"), safe="/")
    if path.startswith("/"):
        return f"file://{path}"
    # A colon in the first segment would make it a scheme; `quote` has replaced it.
    return path
