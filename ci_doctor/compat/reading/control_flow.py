# SPDX-License-Identifier: Apache-2.0
"""Pure. What a statement says about the lines behind it and inside it."""

import ast
from collections.abc import Sequence
from typing import Final

from ci_doctor.compat.reading.guard import Guard, GuardKind, Guards

_ENDS: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)
# They raise: of pytest, unittest, sys and os.
_ENDING_CALLS: Final = frozenset({"skip", "skipTest", "exit", "_exit", "fail", "abort"})


def afterwards(statement: ast.stmt) -> Guards:
    """What holds behind an `if` of which one branch never ends, or behind `importorskip`."""
    if not isinstance(statement, ast.If):
        call = getattr(statement, "value", None)
        if isinstance(call, ast.Call) and last_word(call.func) == "importorskip":
            return (Guard(kind=GuardKind.MARK, node=call, is_behind=True),)
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
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return last_word(last.value.func) in _ENDING_CALLS
    return isinstance(last, _ENDS)


def last_word(node: ast.expr) -> str:
    """`skipif` of `pytest.mark.skipif`; empty for what is no name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def suppressed(expression: ast.expr) -> Guards:
    """The guard of `with contextlib.suppress(...)`."""
    if not isinstance(expression, ast.Call):
        return ()
    name = ast.unparse(expression.func)
    if name.rpartition(".")[2] in {"suppress", "raises"}:
        return (Guard(kind=GuardKind.SUPPRESS, node=expression),)
    return ()
