# SPDX-License-Identifier: Apache-2.0
"""Pure. The enums that a repository defines, each by a name that only one class has."""

import ast
import re
from collections import Counter

from msgspec import Struct

from ci_doctor.lint.consistency.repository import RepositoryFiles
from ci_doctor.lint.python.program import PythonProgram
from ci_doctor.lint.violation import Place

_CLASS = re.compile(r"^[ \t]*class[ \t]+(\w+)", re.MULTILINE)
_ENUM = re.compile(r"^class[ \t]+(\w+)[ \t]*\([^)]*\b(?:Str|Int)?(?:Enum|Flag)\b", re.MULTILINE)
# Bases of the standard library; another base may bring members of its own.
_BASES = {"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "str", "int"}


class EnumClass(Struct, frozen=True, kw_only=True):
    """An enum. values: those of all members, None if one is computed or others are accepted."""

    name: str
    members: frozenset[str]
    attributes: frozenset[str]
    values: frozenset[str | int] | None
    place: Place


def enums(repository: RepositoryFiles) -> dict[str, EnumClass]:
    """By name. A name that two classes have means nothing for sure, and is left out."""
    names = Counter(
        name for file in repository.python for name in _CLASS.findall(repository.files[file])
    )
    known: dict[str, EnumClass] = {}
    for program in repository.python_with("enum", _ENUM):
        for node in program.tree.body:
            if isinstance(node, ast.ClassDef) and names[node.name] == 1:
                enum = _enum(program, node)
                if enum is not None:
                    known[node.name] = enum
    return known


def _enum(program: PythonProgram, node: ast.ClassDef) -> EnumClass | None:
    bases = [program.dotted(base).rpartition(".")[2] for base in node.bases]
    if not set(bases) <= _BASES or node.keywords or node.decorator_list:
        return None
    values: dict[str, ast.expr] = {}
    attributes: set[str] = set()
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            values[statement.targets[0].id] = statement.value
            continue
        name = _attribute(statement)
        if name is None:
            return None  # members under a condition
        attributes.add(name)
    if not values:
        return None
    return EnumClass(
        name=node.name,
        members=frozenset(values),
        attributes=frozenset(attributes),
        values=None if "_missing_" in attributes else _constants(list(values.values())),
        place=Place(file=program.file, line=node.lineno, end_line=node.lineno),
    )


def _attribute(statement: ast.stmt) -> str | None:
    """The name that a statement gives to the class; empty for none, None if it cannot be known."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return statement.name
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    return "" if isinstance(statement, ast.Expr | ast.Pass) else None


def _constants(nodes: list[ast.expr]) -> frozenset[str | int] | None:
    values: set[str | int] = set()
    for node in nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str | int):
            return None
        values.add(node.value)
    return frozenset(values)
