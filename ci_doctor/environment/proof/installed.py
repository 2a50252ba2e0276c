# SPDX-License-Identifier: Apache-2.0
"""Reads installed packages: those that satisfy build requirements without any download."""

import importlib.metadata
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

# setuptools builds wheels itself since 70.1, and many projects still name `wheel`.
_OPTIONAL = "wheel"
_BUILDS_WHEELS = SpecifierSet(">=70.1")


class InstalledPackages:
    """The packages of this interpreter, and of other ones with the same Python version."""

    def __init__(self, others: Sequence[Path] = ()) -> None:
        self._paths = [str(path) for path in others] + sys.path
        self._found: dict[str, list[importlib.metadata.Distribution]] | None = None

    def satisfy(
        self, requires: Iterable[str]
    ) -> tuple[tuple[importlib.metadata.Distribution, ...], str | None]:
        """The packages that `requires` need, with all that these need; or what is missing first.

        Of several versions it is the newest, as an installer would choose.
        """
        needed: dict[str, importlib.metadata.Distribution] = {}
        bounds: dict[str, SpecifierSet] = {}
        waiting = [(text, "") for text in requires]
        visited: set[tuple[str, str]] = set()
        missing_wheel: str | None = None
        while waiting:
            text, extra = waiting.pop()
            requirement = _parsed(text, extra)
            if requirement is None or (text, extra) in visited:
                continue
            visited.add((text, extra))
            name = canonicalize_name(requirement.name)
            bounds[name] = bounds.get(name, SpecifierSet()) & requirement.specifier
            newest = None if requirement.url else self._newest(name, bounds[name])
            if newest is None and name == _OPTIONAL:
                missing_wheel = text
                continue
            if newest is None:
                return (), text
            needed[name] = newest
            for dependency in newest.requires or ():
                waiting += [(dependency, each) for each in ("", *requirement.extras)]
        if missing_wheel is not None and not _builds_wheels(needed.get("setuptools")):
            return (), missing_wheel
        return tuple(needed.values()), None

    def _newest(self, name: str, bounds: SpecifierSet) -> importlib.metadata.Distribution | None:
        right = [each for each in self._all().get(name, ()) if _is_right(each, bounds)]
        return max(right, key=lambda each: Version(each.version), default=None)

    def _all(self) -> dict[str, list[importlib.metadata.Distribution]]:
        if self._found is None:
            self._found = {}
            for each in importlib.metadata.distributions(path=self._paths):
                # A damaged one has no name.
                name = each.metadata["Name"] if each.metadata else None
                if name:
                    self._found.setdefault(canonicalize_name(name), []).append(each)
        return self._found


def _parsed(text: str, extra: str) -> Requirement | None:
    """The requirement; None if its marker does not hold. Raises InvalidRequirement."""
    requirement = Requirement(text)
    if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
        return None
    return requirement


def _is_right(distribution: importlib.metadata.Distribution, bounds: SpecifierSet) -> bool:
    try:
        return bounds.contains(distribution.version, prereleases=True)
    except InvalidVersion:
        return False


def _builds_wheels(setuptools: importlib.metadata.Distribution | None) -> bool:
    return setuptools is not None and _is_right(setuptools, _BUILDS_WHEELS)


def are_valid(requires: Iterable[str]) -> bool:
    """Whether every requirement can be parsed (PEP 508)."""
    for text in requires:
        try:
            Requirement(text)
        except InvalidRequirement:
            return False
    return True


def site_directory(python: Path) -> Path | None:
    """Where the interpreter of a virtual environment keeps packages.

    None if its Python is not of our version: compiled packages would not load.
    """
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    directory = python.parent.parent / "lib" / name / "site-packages"
    return directory if directory.is_dir() else None
