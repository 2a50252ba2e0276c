# SPDX-License-Identifier: Apache-2.0
"""Reads a project's packaging files, as values."""

import configparser
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from ci_doctor.environment.setup_script import SetupScript, read_setup_script
from ci_doctor.errors import UsageError

# In setuptools-scm's order (setuptools_scm._integration.pyproject_reading).
SCM_TABLES: Final = ("setuptools_scm", "vcs-versioning")


class PackagingFiles(Struct, frozen=True, kw_only=True):
    """What pyproject.toml, setup.cfg, setup.py and hatch.toml of one directory hold.

    A file that is missing is empty.
    """

    directory: Path
    pyproject: dict[str, Any]
    cfg: dict[str, dict[str, str]]
    script: SetupScript
    hatch: dict[str, Any]

    @property
    def backend(self) -> str:
        """The object that builds the project (PEP 517; setuptools if none is named)."""
        build = table(self.pyproject, "build-system")
        return str(build.get("build-backend", "setuptools.build_meta"))

    @property
    def tools(self) -> dict[str, Any]:
        """The `[tool]` table."""
        return table(self.pyproject, "tool")

    @property
    def metadata(self) -> dict[str, Any]:
        """The `[project]` table (PEP 621)."""
        return table(self.pyproject, "project")

    @property
    def cfg_metadata(self) -> dict[str, str]:
        """The `[metadata]` section of setup.cfg."""
        return self.cfg.get("metadata", {})

    @property
    def is_version_dynamic(self) -> bool:
        """Whether `[project]` leaves the version to the backend."""
        dynamic = self.metadata.get("dynamic", [])
        return isinstance(dynamic, list) and "version" in dynamic

    @property
    def requires(self) -> list[str]:
        """The build requirements as written, also those of setup.py and setup.cfg."""
        requires = table(self.pyproject, "build-system").get("requires", [])
        if not isinstance(requires, list):
            requires = []
        older = self.cfg.get("options", {}).get("setup_requires", "")
        return [
            *(text for text in requires if isinstance(text, str)),
            *self.script.setup_requires,
            *(line.strip() for line in re.split(r"[\n;]", older) if line.strip()),
        ]

    @property
    def distribution_name(self) -> str | None:
        """The project's name; None if no file states it.

        setuptools-scm's order: setup.cfg before what setuptools knows from pyproject.toml or
        setup().
        """
        candidates = (
            self.cfg_metadata.get("name"),
            self.metadata.get("name"),
            self.script.name,
            table(self.tools, "poetry").get("name"),
        )
        for text in candidates:
            if isinstance(text, str) and text:
                return text
        return None


def read_packaging_files(directory: Path) -> PackagingFiles:
    """Read the packaging files in `directory`.

    Raises UsageError if one cannot be read or parsed (with file and line).
    """
    return PackagingFiles(
        directory=directory,
        pyproject=_read_toml(directory / "pyproject.toml"),
        cfg=_read_cfg(directory / "setup.cfg"),
        script=_read_script(directory / "setup.py"),
        hatch=_read_toml(directory / "hatch.toml"),
    )


def packages(requires: Iterable[str]) -> frozenset[str]:
    """Canonical names (PEP 503) of requirement strings; a string without a name is left out."""
    names = set()
    for text in requires:
        match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", text)
        if match:
            names.add(re.sub(r"[-_.]+", "-", match[1]).lower())
    return frozenset(names)


def table(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The table at `key`; empty if there is none."""
    value = mapping.get(key)
    return value if isinstance(value, dict) else {}


def scm_table(pyproject: Mapping[str, Any]) -> dict[str, Any]:
    """The table that setuptools-scm would read from `pyproject`; empty if there is none."""
    tools = table(pyproject, "tool")
    for name in SCM_TABLES:
        if isinstance(tools.get(name), dict):
            return table(tools, name)
    return {}


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read_text(path) or "")
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise UsageError(
            f"{path}:{line[1] if line else 1}: not valid TOML: {error}", hint="correct the file"
        ) from error


def _read_cfg(path: Path) -> dict[str, dict[str, str]]:
    # Raw: setuptools does not interpolate, and a `%` in a value is no reference.
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(_read_text(path) or "", source=str(path))
    except configparser.Error as error:
        raise UsageError(
            f"{path}: not a valid setup.cfg: {error}", hint="correct the file"
        ) from error
    return {section: dict(parser.items(section)) for section in parser.sections()}


def _read_script(path: Path) -> SetupScript:
    try:
        return read_setup_script(_read_text(path) or "", str(path))
    except SyntaxError as error:
        raise UsageError(
            f"{path}:{error.lineno or 1}: not valid Python: {error.msg}", hint="correct the file"
        ) from error
    except ValueError as error:  # a null byte, before Python 3.11.4
        raise UsageError(f"{path}:1: not valid Python: {error}", hint="correct the file") from error


def _read_text(path: Path) -> str | None:
    try:
        # Some editors write a byte-order mark, which tomllib and ast refuse.
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {path}: {error}", hint="the file must be readable and UTF-8"
        ) from error
