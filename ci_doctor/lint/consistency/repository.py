# SPDX-License-Identifier: Apache-2.0
"""Pure. The files of a repository, parsed only if a rule asks for them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import PurePosixPath

from ci_doctor.lint.excerpt import excerpt_of
from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.python.program import PythonProgram, parse
from ci_doctor.lint.violation import Place, Violation

_SHELL = {".sh", ".bash", ".zsh", ".env"}
_DATA = {".yml", ".yaml"}
_PROSE = {".md", ".rst", ".txt", ".adoc", ".ipynb"}
# Variables of CI systems are theirs, whatever a package is called.
_CI_SYSTEMS = {"BUILDKITE_", "GITHUB_", "GITLAB_", "CIRCLE_", "JENKINS_", "CI_"}
# A package lies at the top of the repository, or below one of these.
_ROOTS = {"", "src", "python", "lib"}


class RepositoryFiles:
    """Texts by their names, which are relative to the repository.

    `whole`: whether these are all files of the repository that a program may read. What nobody
    reads can be said only then.
    """

    def __init__(self, files: Mapping[str, str], *, whole: bool = True) -> None:
        self.files = files
        self.whole = whole
        self._programs: dict[str, PythonProgram | None] = {}

    @cached_property
    def python(self) -> tuple[str, ...]:
        """The Python files."""
        return tuple(file for file in self.files if file.endswith(".py"))

    @cached_property
    def settings(self) -> tuple[str, ...]:
        """Shell scripts, YAML and Dockerfiles: they set variables for others."""
        return tuple(file for file in self.files if is_setting(file))

    @cached_property
    def packages(self) -> frozenset[str]:
        """The names of the Python packages that the repository itself holds."""
        names: set[str] = set()
        for file in self.python:
            path = PurePosixPath(file)
            if path.name == "__init__.py" and str(path.parent.parent).lstrip(".") in _ROOTS:
                names.add(path.parent.name)
        return frozenset(names - {"tests", "test", "benchmarks", "examples", "docs"})

    def program(self, file: str) -> PythonProgram | None:
        """A Python file, parsed; None if Python refuses it."""
        if file not in self._programs:
            try:
                self._programs[file] = parse(file, self.files[file])
            except SyntaxError:
                self._programs[file] = None
        return self._programs[file]

    def python_with(self, word: str, pattern: re.Pattern[str]) -> Iterator[PythonProgram]:
        """The Python programs whose text holds both: the others are not parsed."""
        for file in self.python:
            text = self.files[file]
            if word not in text or pattern.search(text) is None:
                continue
            program = self.program(file)
            if program is not None:
                yield program

    def violation(
        self, rule: LintRule, place: Place, summary: str, *, remedy: str, related: tuple[Place, ...]
    ) -> Violation:
        """A violation at a place of one of the files."""
        return Violation(
            rule=rule,
            place=place,
            summary=summary,
            excerpt=self._line(place),
            remedy=remedy,
            related=related,
        )

    def _line(self, place: Place) -> str:
        lines = self.files[place.file].split("\n")
        return excerpt_of(lines[place.line - 1]) if place.line <= len(lines) else ""


def own_prefixes(packages: Iterable[str]) -> tuple[str, ...]:
    """How the variables of the repository's own packages begin: `VLLM_` for vllm."""
    prefixes = {f"{name.strip('_').upper()}_" for name in packages}
    return tuple(sorted(prefixes - _CI_SYSTEMS))


def is_setting(file: str) -> bool:
    """Whether a file sets variables for programs: a script, YAML, a Dockerfile."""
    path = PurePosixPath(file)
    return path.suffix in _SHELL | _DATA or "Dockerfile" in path.name


def is_prose(file: str) -> bool:
    """Whether a file only tells of variables."""
    path = PurePosixPath(file)
    return path.suffix in _PROSE and path.name != "CMakeLists.txt"


def is_test(file: str) -> bool:
    """Whether a file tests the repository: it may try values that are refused."""
    path = PurePosixPath(file)
    return "tests" in path.parts or "test" in path.parts or path.name.startswith("test_")


def line_place(file: str, text: str, offset: int) -> Place:
    """The place of the line that holds the character at `offset` of `text`."""
    line = text.count("\n", 0, offset) + 1
    return Place(file=file, line=line, end_line=line)
