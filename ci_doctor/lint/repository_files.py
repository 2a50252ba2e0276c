# SPDX-License-Identifier: Apache-2.0
"""Pure. The files of a repository, and what its programs read and set."""

import ast
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import PurePosixPath

from msgspec import Struct

from ci_doctor.lint.lint_rule import LintRule, Place, Violation, excerpt_of
from ci_doctor.lint.python_program import PythonProgram, parse

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


# What a Python program does with environment variables.

_GETS = {"os.environ.get", "os.getenv", "environ.get", "getenv"}
_SETS = {"os.environ.setdefault", "environ.setdefault"}
_ENVIRONS = {"os.environ", "environ"}


class VariableValue(Struct, frozen=True, kw_only=True):
    """A variable is compared with a value, or set to it.

    `folded`: the case of letters does not matter in this comparison.
    """

    name: str
    value: str
    place: Place
    folded: bool = False
    sets: bool = False


def values(program: PythonProgram) -> Iterator[VariableValue]:
    """Comparisons with constants, and settings to constants."""
    for node in program.nodes:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from _compared(program, node)
        elif isinstance(node, ast.Call) and program.dotted(node.func) in _SETS:
            yield from _set(program, node, node.args)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            target = node.targets[0]
            if program.dotted(target.value) in _ENVIRONS:
                yield from _set(program, node, [target.slice, node.value])


def _set(
    program: PythonProgram, node: ast.stmt | ast.expr, words: list[ast.expr]
) -> Iterator[VariableValue]:
    texts = [_text(word) for word in words]
    if len(texts) == 2 and texts[0] is not None and texts[1] is not None:
        yield VariableValue(name=texts[0], value=texts[1], place=program.place(node), sets=True)


def _compared(program: PythonProgram, node: ast.Compare) -> Iterator[VariableValue]:
    if not isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
        return
    left, right = node.left, node.comparators[0]
    name, folded = _variable(program, left)
    if name is None:
        name, folded = _variable(program, right)
        right = left
    if name is None:
        return
    for value in _constants(right):
        yield VariableValue(name=name, value=value, place=program.place(node), folded=folded)


def _variable(program: PythonProgram, node: ast.expr) -> tuple[str | None, bool]:
    """The variable whose value an expression is, and whether its letters were folded."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        if node.func.attr in {"lower", "upper", "casefold"}:
            return _variable(program, node.func.value)[0], True
        if node.func.attr == "strip":
            return _variable(program, node.func.value)
    if isinstance(node, ast.Call):
        return _variable_of_get(program, node), False
    if isinstance(node, ast.Subscript) and program.dotted(node.value) in _ENVIRONS:
        return _text(node.slice), False
    if isinstance(node, ast.Attribute) and node.attr.isupper():
        owner = program.dotted(node.value)
        # A module of settings, one attribute a variable, as vllm.envs is.
        if owner.rpartition(".")[2] in {"envs", "environs"}:
            return node.attr, False
    return None, False


def _variable_of_get(program: PythonProgram, call: ast.Call) -> str | None:
    if program.dotted(call.func) not in _GETS or not call.args:
        return None
    return _text(call.args[0])


def _constants(node: ast.expr) -> Iterator[str]:
    elements = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    for element in elements:
        value = _text(element)
        if value is not None:
            yield value


def _text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


# The variables that shell scripts, YAML and Dockerfiles set to a constant.

_NAME = r"(?<![A-Z0-9_])(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+)"
_SHELL_VALUE = re.compile(
    _NAME + r"""=(?P<quote>["']?)(?P<value>[^\s"'$`;&|()<>\\]*)(?P=quote)(?=[\s;&|)]|$)"""
)
_YAML = re.compile(
    _NAME
    + r"""["']?[ \t]*:[ \t]+(?P<quote>["']?)(?P<value>[^\s"'$#{}\[\]|>&*]+)(?P=quote)"""
    + r"""[ \t]*(?:\#.*)?\r?$""",
    re.MULTILINE,
)
_COMMENT = re.compile(r"\s*#")
_LINE_END = re.compile(r"\n")
# What may stand before a name that is set. After a bar it is mostly a choice in a pattern of grep.
_BEFORE_IN_SHELL = frozenset(" \t\n;&(\"'")


def set_variables(repository: RepositoryFiles) -> Iterator[VariableValue]:
    """Settings such as `export NAME=value`, `docker run -e NAME=value` and `NAME: value`."""
    for file in repository.settings:
        text = repository.files[file]
        # A line may have a megabyte, and a file a hundred thousand settings.
        starts = [0, *(end.end() for end in _LINE_END.finditer(text))]
        is_yaml = file.endswith((".yml", ".yaml"))
        for pattern in (_SHELL_VALUE, _YAML) if is_yaml else (_SHELL_VALUE,):
            for match in pattern.finditer(text):
                start = match.start("name")
                line = bisect_right(starts, start)
                first = starts[line - 1]
                if _COMMENT.match(text, first, start) or not _may_set(pattern, text, first, start):
                    continue
                yield VariableValue(
                    name=match["name"],
                    value=match["value"],
                    place=Place(file=file, line=line, end_line=line),
                    sets=True,
                )


def _may_set(pattern: re.Pattern[str], text: str, first: int, start: int) -> bool:
    """Whether what stands in a line from `first` to a name at `start` lets it be a name."""
    if pattern is _YAML:
        return not text[first:start].strip(" \t-\"'")
    return start == first or text[start - 1] in _BEFORE_IN_SHELL
