"""A test empties PATH."""

import os
import shutil


def test_tool_is_missing() -> None:
    os.environ["PATH"] = ""
    assert shutil.which("sh") is None


def test_tool_is_there() -> None:
    assert shutil.which("sh") is not None
