# SPDX-License-Identifier: Apache-2.0
"""Reads a package's directory, and its project's tests if they are there."""

from pathlib import Path

from .source import Source, read_source
from .summary import Package

_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg")
_TESTS = ("tests", "test")


def read_package(directory: Path) -> Package:
    """Measure every module below `directory`; modules without code do not count.

    Raises NotADirectoryError if it is none, ValueError if no module in it holds code, and
    SyntaxError if a module needs another version of Python.
    """
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory}: name a package's directory")
    sources: list[Source] = []
    for path in modules(directory):
        source = read_source(path.read_text(encoding="utf-8"))
        if source.code_lines:
            sources.append(source)
    if not sources:
        raise ValueError(f"{directory}: no Python code below it")
    name, root = directory.resolve().name, project_of(directory)
    if root is None:
        return Package(name, tuple(sources), test_lines=None)
    return Package(name, tuple(sources), lines_of_tests(root))


def modules(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*.py") if path.is_file())


def project_of(package: Path) -> Path | None:
    """The source tree around a package, `src/` layouts included; None for an installed one."""
    parent = package.resolve().parent
    for root in (parent, parent.parent):
        if any((root / marker).is_file() for marker in _MARKERS):
            return root
    return None


def lines_of_tests(root: Path) -> int | None:
    """Code lines of all tests of a project, or None if it has no tests."""
    for name in _TESTS:
        if (root / name).is_dir():
            lines = 0
            for path in modules(root / name):
                lines += read_source(path.read_text(encoding="utf-8")).code_lines
            return lines
    return None
