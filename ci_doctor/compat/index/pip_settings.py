# SPDX-License-Identifier: Apache-2.0
"""Reads where pip looks for packages: its environment variables, then its configuration files."""

import configparser
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

_DEFAULT: Final = "https://pypi.org/simple"
_SECTIONS: Final = ("global", "install", "download")


class PipSettings(Struct, frozen=True, kw_only=True):
    """Addresses of simple indexes, and directories or pages with files."""

    indexes: tuple[str, ...]
    find_links: tuple[str, ...]
    certificates: str | None = None


def pip_settings(environ: Mapping[str, str] = os.environ) -> PipSettings:
    """What `pip config list` would say of indexes."""
    values: dict[str, str] = {}
    for path in _files(environ):
        values |= _section_values(path)
    for name, value in environ.items():
        if name.startswith("PIP_") and value:
            values[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    indexes: list[str] = []
    if values.get("no-index", "").lower() not in {"1", "true", "yes", "on"}:
        indexes.append(values.get("index-url", _DEFAULT))
        indexes += values.get("extra-index-url", "").split()
    return PipSettings(
        indexes=tuple(each.rstrip("/") for each in indexes),
        find_links=tuple(values.get("find-links", "").split()),
        certificates=values.get("cert"),
    )


def _files(environ: Mapping[str, str]) -> list[Path]:
    """The configuration files, the one that wins last (pip's documentation, Configuration)."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = Path(environ.get("HOME", "/"))
    user = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [
        Path("/etc/xdg/pip/pip.conf"),
        Path("/etc/pip.conf"),
        home / ".pip" / "pip.conf",
        user / "pip" / "pip.conf",
        Path(sys.prefix) / "pip.conf",
    ]
    return [*files, Path(named)] if named else files


def _section_values(path: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return {}
    values: dict[str, str] = {}
    for section in _SECTIONS:
        if parser.has_section(section):
            values |= {key.replace("_", "-"): value for key, value in parser.items(section)}
    return values
