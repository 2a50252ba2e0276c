# SPDX-License-Identifier: Apache-2.0
"""Reads a script: where an import can stand so that it runs early and still finds its module."""

import ast
import warnings
from pathlib import Path
from typing import Final

# What makes more modules importable than were at the start.
_EXTENDS: Final = ("sys.path", "site.addsitedir", "site.main", "sys.meta_path", "sys.path_hooks")


def place_for_import(file: str, before: int) -> str:
    """Where in `file` to write an import that must run before line `before`, as words.

    The top of the file is wrong if a later line extends sys.path, or comes before
    `from __future__`.
    """
    line, reason = _last_obstacle(file, before)
    if line is None:
        return f"at the top of {file}"
    return f"in {file} right after line {line}, {reason}"


def _last_obstacle(file: str, before: int) -> tuple[int | None, str]:
    place: tuple[int | None, str] = (None, "")
    for statement in _statements(file):
        end = statement.end_lineno or statement.lineno
        if end >= before:
            break
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            place = (end, "the import from __future__")
        elif _extends_path(statement):
            place = (end, "which extends sys.path")
    return place


def _statements(file: str) -> list[ast.stmt]:
    try:
        source = Path(file).read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source).body
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _extends_path(statement: ast.stmt) -> bool:
    """Whether it changes where modules are found; what a function would do counts when called."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    for node in ast.walk(statement):
        changed: list[ast.expr] = []
        if isinstance(node, ast.Call):
            changed = [node.func]
        elif isinstance(node, ast.Assign):
            changed = node.targets
        elif isinstance(node, ast.AugAssign):
            changed = [node.target]
        if any(ast.unparse(each).startswith(_EXTENDS) for each in changed):
            return True
    return False
