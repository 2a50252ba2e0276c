# SPDX-License-Identifier: Apache-2.0
"""Compare a text with the file that a person has approved; `UPDATE_GOLDEN=1` approves the text as it is now."""

import difflib
import os
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"


def assert_matches_golden(actual: str, name: str) -> None:
    """Fail with a diff unless `actual` is, byte for byte, the file `tests/golden/<name>`."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(actual.encode())
        return
    expected = path.read_bytes().decode() if path.exists() else ""
    if actual == expected:
        return
    difference = difflib.unified_diff(
        expected.splitlines(),
        actual.splitlines(),
        f"tests/golden/{name}",
        "actual",
        lineterm="",
        n=2,
    )
    raise AssertionError("\n".join([*difference, "", "approve it with UPDATE_GOLDEN=1"]))
