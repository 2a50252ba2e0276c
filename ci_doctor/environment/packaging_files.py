# SPDX-License-Identifier: Apache-2.0
"""Reads a project's packaging files, as values; whether its requirements force an old version."""

import configparser
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from ci_doctor.environment.setup_script import SetupScript, read_setup_script
from ci_doctor.errors import UsageError

if TYPE_CHECKING:
    from packaging.specifiers import Specifier

_T = TypeVar("_T")
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
        system = table(self.pyproject, "build-system")
        return str(system.get("build-backend", "setuptools.build_meta"))

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
        names = (
            self.cfg_metadata.get("name"),
            self.metadata.get("name"),
            self.script.name,
            table(self.tools, "poetry").get("name"),
        )
        return next((name for name in names if isinstance(name, str) and name), None)


def read_packaging_files(directory: Path) -> PackagingFiles:
    """Read the packaging files in `directory`.

    Raises UsageError if one cannot be read or parsed (with file and line).
    """
    script = directory / "setup.py"
    return PackagingFiles(
        directory=directory,
        pyproject=_parsed(directory / "pyproject.toml", "TOML", tomllib.loads),
        cfg=_parsed(directory / "setup.cfg", "setup.cfg", _cfg),
        script=_parsed(script, "Python", lambda text: read_setup_script(text, str(script))),
        hatch=_parsed(directory / "hatch.toml", "TOML", tomllib.loads),
    )


def packages(requires: Iterable[str]) -> frozenset[str]:
    """Canonical names (PEP 503) of requirement strings; a string without a name is left out."""
    matches = (re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", text) for text in requires)
    return frozenset(re.sub(r"[-_.]+", "-", match[1]).lower() for match in matches if match)


def table(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The table at `key`; empty if there is none."""
    value = mapping.get(key)
    return value if isinstance(value, dict) else {}


def scm_table(pyproject: Mapping[str, Any]) -> dict[str, Any]:
    """The table that setuptools-scm would read from `pyproject`; empty if there is none."""
    tools = table(pyproject, "tool")
    return next((tools[name] for name in SCM_TABLES if isinstance(tools.get(name), dict)), {})


def _parsed(path: Path, kind: str, parse: Callable[[str], _T]) -> _T:
    """What `parse` makes of a file, of an empty text if it is missing; an error names its line."""
    try:
        return parse(_read_text(path))
    except (tomllib.TOMLDecodeError, configparser.Error, SyntaxError, ValueError) as error:
        named = re.search(r"line:? (\d+)", str(error))
        line = getattr(error, "lineno", None) or (named[1] if named else 1)
        words = str(getattr(error, "msg", None) or error).partition("\n")[0]
        raise UsageError(
            f"{path}:{line}: not valid {kind}: {words}", hint="correct the file"
        ) from error


def _cfg(text: str) -> dict[str, dict[str, str]]:
    # Raw: setuptools does not interpolate, and a `%` in a value is no reference.
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    return {section: dict(parser.items(section)) for section in parser.sections()}


def _read_text(path: Path) -> str:
    try:
        # Some editors write a byte-order mark, which tomllib and ast refuse.
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {path}: {error}", hint="the file must be readable and UTF-8"
        ) from error


def is_forced_below(requires: Iterable[str], package: str, version: str) -> bool:
    """Whether `requires` allow only versions of `package` (its canonical name) below `version`.

    A requirement whose marker does not hold here, or that cannot be parsed, does not count.
    """
    named = [text for text in requires if package in packages([text])]
    if not named:
        return False
    # Late: most projects name no such requirement, and packaging takes a while to import.
    from packaging.requirements import InvalidRequirement, Requirement

    for text in named:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        if any(_is_below(each, version) for each in requirement.specifier):
            return True
    return False


def _is_below(specifier: "Specifier", version: str) -> bool:
    """Whether every version that `specifier` allows is below `version` (PEP 440)."""
    from packaging.version import InvalidVersion, Version

    limit = Version(version)
    try:
        named = Version(specifier.version.removesuffix(".*"))
    except InvalidVersion:  # `===` takes any text
        return False
    match specifier.operator:
        case "<":
            return named <= limit
        case "<=" | "==" | "===":
            return named < limit
        case "~=":
            # `~= 7.1` is `>= 7.1, == 7.*`.
            return named.release[: max(len(named.release) - 1, 1)] < limit.release
        case _:
            return False
