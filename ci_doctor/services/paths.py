# SPDX-License-Identifier: Apache-2.0
"""Paths as a person types them. Pure."""

from pathlib import Path


def relative(path: str, directory: Path) -> str:
    """A path inside `directory` relative to it; any other path as it is."""
    inner = Path(path)
    if not inner.is_relative_to(directory):
        return path
    return str(inner.relative_to(directory))
