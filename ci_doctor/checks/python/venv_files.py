# SPDX-License-Identifier: Apache-2.0
"""Reads the files of a virtual environment that say which interpreter it belongs to (PEP 405)."""

import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.checks.python.presence import is_file
from ci_doctor.identity.interpreter import read_venv_keys

_VERSION = re.compile(r"\d+\.\d+")


class VenvFiles(Struct, frozen=True, kw_only=True):
    """What lies around an interpreter at `prefix`/bin/python.

    `keys` are those of pyvenv.cfg, in lower case; None without that file. `libraries` are the
    versions that have a directory of packages, such as `3.12`.
    """

    prefix: Path
    keys: Mapping[str, str] | None
    has_activate: bool
    libraries: tuple[str, ...]

    @property
    def is_venv(self) -> bool:
        """Whether it is, or was, a virtual environment."""
        return self.keys is not None or self.has_activate

    @property
    def version(self) -> str | None:
        """The version that it was made for, such as `3.12`; virtualenv and uv have another key."""
        keys = self.keys or {}
        match = _VERSION.match(keys.get("version") or keys.get("version_info") or "")
        return match[0] if match else None


def read_venv_files(python: Path) -> VenvFiles:
    """The files around `python`, by its path and not by what it links to."""
    prefix = python.parent.parent
    sites = sorted(prefix.glob("lib/python3.*/site-packages"))
    libraries = [site.parent.name.removeprefix("python") for site in sites]
    return VenvFiles(
        prefix=prefix,
        keys=read_venv_keys(prefix),
        has_activate=is_file(python.parent / "activate"),
        libraries=tuple(libraries),
    )
