# SPDX-License-Identifier: Apache-2.0
"""Pure. What a statement says about the lines behind it and inside it."""

import ast
from collections.abc import Sequence
from typing import Final

from ci_doctor.compat.reading.guard import Guard, GuardKind, Guards

_ENDS: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def afterwards(statement: ast.stmt) -> Guards:
    """What holds behind an `if` of which one branch never ends."""
    if not isinstance(statement, ast.If):
        return ()
    if statement.body and _never_ends(statement.body):
        return (Guard(kind=GuardKind.TEST, node=statement.test, holds=False, is_behind=True),)
    if statement.orelse and _never_ends(statement.orelse):
        return (Guard(kind=GuardKind.TEST, node=statement.test, is_behind=True),)
    return ()


def _never_ends(body: Sequence[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and _never_ends(last.body) and _never_ends(last.orelse)
    return isinstance(last, _ENDS)


def suppressed(expression: ast.expr) -> Guards:
    """The guard of `with contextlib.suppress(...)`."""
    if not isinstance(expression, ast.Call):
        return ()
    name = ast.unparse(expression.func)
    if name.rpartition(".")[2] in {"suppress", "raises"}:
        return (Guard(kind=GuardKind.SUPPRESS, node=expression),)
    return ()
