# SPDX-License-Identifier: Apache-2.0
"""Pure. A function in one file of another version, by its name alone."""

import ast
from typing import TYPE_CHECKING

from ci_doctor.compat.judging.call_signature import parameter_list, read_parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

_Definition = ast.FunctionDef | ast.AsyncFunctionDef


def named_definition(source: str | bytes, qualified: str) -> tuple[int, str] | None:
    """Line and parameters of `Class.method` or `function`; None if the source does not define it."""
    try:
        body: Sequence[ast.stmt] = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    definition: ast.stmt | None = None
    for word in qualified.split("."):
        definition = next((each for each in body if _is_named(each, word)), None)
        body = getattr(definition, "body", [])
    if not isinstance(definition, _Definition):
        return None
    return definition.lineno, parameter_list(tuple(read_parameters(definition.args)))


def _is_named(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.ClassDef | _Definition) and statement.name == name
