# SPDX-License-Identifier: Apache-2.0
"""Pure. What a handler of an exception catches, and whether it leaves a trace that decides."""

import ast

from ci_doctor.lint.python.program import PythonProgram, inside

_BROAD = {"Exception", "BaseException", "builtins.Exception", "builtins.BaseException"}
# Talk: it is read by a person, and by no gate.
_TALK = ("print", "logging.", "logger.", "log.", "warnings.warn", "traceback.print_", "time.sleep")
_TALKING_METHODS = {"debug", "info", "warning", "warn", "error", "exception", "critical", "log"}


def caught(program: PythonProgram, handler: ast.ExceptHandler) -> list[str]:
    """The names of what a handler catches; empty if it catches everything."""
    kind = handler.type
    if kind is None:
        return []
    elements = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return [program.dotted(element) for element in elements]


def is_broad(program: PythonProgram, handler: ast.ExceptHandler) -> bool:
    """Whether it catches every error."""
    names = caught(program, handler)
    return not names or bool(_BROAD & set(names))


def is_silent(program: PythonProgram, handler: ast.ExceptHandler) -> bool:
    """Whether its body only talks, waits or goes on, so that nothing later knows of the error."""
    return all(says_nothing(program, statement) for statement in handler.body)


def says_nothing(program: PythonProgram, statement: ast.stmt) -> bool:
    """Whether a statement only talks, waits or goes on."""
    if isinstance(statement, ast.Pass | ast.Continue):
        return True
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    if isinstance(value, ast.Await):
        value = value.value
    if isinstance(value, ast.Constant):
        return True
    return isinstance(value, ast.Call) and _is_talk(program, value)


def _is_talk(program: PythonProgram, call: ast.Call) -> bool:
    name = program.dotted(call.func)
    if name.startswith(_TALK) or name == "asyncio.sleep":
        return True
    return isinstance(call.func, ast.Attribute) and call.func.attr in _TALKING_METHODS


def is_try_again(program: PythonProgram, node: ast.Try) -> bool:
    """Whether a loop tries until it succeeds: then a caught error decides nothing by itself.

    Such a loop has a `return` or a `break` that the error jumps over.
    """
    for above in program.parents(node):
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return False
        if isinstance(above, ast.For | ast.While | ast.AsyncFor):
            return _leaves(above) or isinstance(above, ast.While)
    return False


def _leaves(loop: ast.For | ast.While | ast.AsyncFor) -> bool:
    return any(isinstance(node, ast.Return | ast.Break) for node in inside(loop.body))
