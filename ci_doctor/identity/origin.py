# SPDX-License-Identifier: Apache-2.0
"""Reads direct_url.json: where a distribution was installed from (PEP 610)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


def read_origin(folder: Path) -> dict[str, Any]:
    """direct_url.json beside the metadata in `folder`.

    It is empty for an installation from an index, and for a file that cannot be read.
    """
    try:
        value = json.loads((folder / "direct_url.json").read_bytes())
    except (OSError, ValueError):
        return {}
    if isinstance(value, dict):
        return value
    return {}


def table_of(origin: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A table of it, such as `dir_info` or `vcs_info`; empty if it has none."""
    value = origin.get(name)
    if isinstance(value, dict):
        return value
    return {}


def is_editable(origin: Mapping[str, Any]) -> bool:
    """Whether the installation is editable."""
    return bool(table_of(origin, "dir_info").get("editable"))


def source_directory(origin: Mapping[str, Any]) -> Path | None:
    """The directory that it was installed from; None for an archive or repository elsewhere."""
    try:
        url = urlsplit(str(origin.get("url", "")))
    except ValueError:  # such as file://[x
        return None
    if url.scheme != "file":
        return None
    return Path(unquote(url.path))
