# SPDX-License-Identifier: Apache-2.0
"""Pure. What a Python program does with environment variables."""

import ast
from collections.abc import Iterator

from msgspec import Struct

from ci_doctor.lint.python.program import PythonProgram
from ci_doctor.lint.violation import Place

_GETS = {"os.environ.get", "os.getenv", "environ.get", "getenv"}
_SETS = {"os.environ.setdefault", "environ.setdefault"}
_ENVIRONS = {"os.environ", "environ"}


class VariableDefault(Struct, frozen=True, kw_only=True):
    """A variable is read, with `value` if it is not set."""

    name: str
    value: str
    place: Place


class VariableValue(Struct, frozen=True, kw_only=True):
    """A variable is compared with a value, or set to it.

    `folded`: the case of letters does not matter in this comparison.
    """

    name: str
    value: str
    place: Place
    folded: bool = False
    sets: bool = False


def defaults(program: PythonProgram) -> Iterator[VariableDefault]:
    """Reads with a constant default."""
    for call in program.calls:
        name = _variable_of_get(program, call)
        if name is None or len(call.args) != 2:
            continue
        default = call.args[1]
        if isinstance(default, ast.Constant) and isinstance(default.value, str | int | float):
            yield VariableDefault(name=name, value=str(default.value), place=program.place(call))


def values(program: PythonProgram) -> Iterator[VariableValue]:
    """Comparisons with constants, and settings to constants."""
    for node in program.nodes:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from _compared(program, node)
        elif isinstance(node, ast.Match):
            yield from _matched(program, node)
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


def _matched(program: PythonProgram, node: ast.Match) -> Iterator[VariableValue]:
    name, folded = _variable(program, node.subject)
    if name is None:
        return
    for case in node.cases:
        for pattern in ast.walk(case.pattern):
            if not isinstance(pattern, ast.MatchValue):
                continue
            value = _text(pattern.value)
            if value is not None:
                place = program.place(pattern.value)
                yield VariableValue(name=name, value=value, place=place, folded=folded)


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
