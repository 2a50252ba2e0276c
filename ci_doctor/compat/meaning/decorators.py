# SPDX-License-Identifier: Apache-2.0
"""Pure. What decorators do to the function or class below them, for those that are known."""

import ast
from enum import StrEnum
from typing import Final

from ci_doctor.compat.meaning.asking import Asks
from ci_doctor.compat.meaning.refs import FunctionRef, OutsideRef
from ci_doctor.compat.reading.name_scope import FunctionNode, NameScope

# They keep the parameters of a function. The last word suffices: nobody gives one of these names to
# a decorator that changes parameters.
_KEEPING: Final = frozenset(
    {
        "abstractmethod",
        "override",
        "final",
        "lru_cache",
        "cache",
        "wraps",
        "no_type_check",
        "inference_mode",
        "no_grad",
        "enable_grad",
        "deprecated",
        "contextmanager",
        "asynccontextmanager",
        "staticmethod",
        "classmethod",
        "coroutine",
        "set_module",
        "runtime_checkable",
        "total_ordering",
        "dataclass_transform",
        "unique",
        "ignore",
        "unused",
    }
)
_PROPERTIES: Final = frozenset(
    {"property", "cached_property", "abstractproperty", "setter", "deleter", "getter"}
)
_MANAGERS: Final = frozenset({"contextmanager", "asynccontextmanager"})


class Shape(StrEnum):
    """What stands in a class or module under a function's name."""

    PLAIN = "plain"
    STATIC = "static"
    CLASS = "class"
    PROPERTY = "property"
    UNKNOWN = "unknown"


def words(node: FunctionNode | ast.ClassDef) -> list[str]:
    """The last word of each decorator: `lru_cache` of `@functools.lru_cache(maxsize=1)`."""
    return [_word(each) for each in node.decorator_list]


def _word(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2]


def is_overload(node: FunctionNode) -> bool:
    """Whether the definition is for type checkers alone."""
    return "overload" in words(node)


def makes_manager(node: FunctionNode) -> bool:
    """Whether a call gives a context manager and not what the body returns."""
    return bool(_MANAGERS & set(words(node)))


def shape(node: FunctionNode, scope: NameScope, asks: Asks) -> Shape:
    """What the decorators make of a function that is defined in `scope`."""
    kind = Shape.PLAIN
    for decorator in node.decorator_list:
        word = _word(decorator)
        if word in _PROPERTIES:
            return Shape.PROPERTY
        if word == "staticmethod":
            kind = Shape.STATIC
        elif word == "classmethod":
            kind = Shape.CLASS
        elif word not in _KEEPING and not keeps_parameters(decorator, scope, asks):
            return Shape.UNKNOWN
    implicit = {
        "__new__": Shape.STATIC,
        "__init_subclass__": Shape.CLASS,
        "__class_getitem__": Shape.CLASS,
    }
    return implicit.get(node.name, kind) if scope.is_class else kind


def keeps_parameters(decorator: ast.expr, scope: NameScope, asks: Asks) -> bool:
    """Whether a decorator of the given packages calls its function with what it was given.

    It does if it returns the function itself, or an inner function that takes and hands on
    `*args, **kwargs`.
    """
    ref = asks.value(decorator.func if isinstance(decorator, ast.Call) else decorator, scope)
    if isinstance(ref, OutsideRef) or not isinstance(ref, FunctionRef):
        return False
    if isinstance(decorator, ast.Call):
        return False
    return _returns_same(ref.scope)


def makes_dataclass(decorator: ast.expr, scope: NameScope, asks: Asks) -> bool:
    """Whether the decorator promises to work like `dataclass` (PEP 681): a class keeps its names."""
    ref = asks.value(decorator.func if isinstance(decorator, ast.Call) else decorator, scope)
    node = ref.scope.node if isinstance(ref, FunctionRef) else None
    return isinstance(node, FunctionNode) and "dataclass_transform" in words(node)


def _returns_same(scope: NameScope) -> bool:
    node = scope.node
    if not isinstance(node, ast.FunctionDef) or not node.args.args or not scope.returns:
        return False
    parameter = node.args.args[0].arg
    for value, _ in scope.returns:
        if not isinstance(value, ast.Name):
            return False
        if value.id != parameter and not _hands_on(scope, value.id, parameter):
            return False
    return True


def _hands_on(scope: NameScope, name: str, parameter: str) -> bool:
    """Whether the inner function `name` calls `parameter(*args, **kwargs)` and nothing else of it."""
    inner = next((each for each in scope.children.values() if each.name == name), None)
    node = None if inner is None else inner.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    if plain or arguments.vararg is None or arguments.kwarg is None:
        return False
    expected = f"{parameter}(*{arguments.vararg.arg}, **{arguments.kwarg.arg})"
    calls = [
        ast.unparse(each)
        for each in ast.walk(node)
        if isinstance(each, ast.Call) and ast.unparse(each.func) == parameter
    ]
    return bool(calls) and all(call == expected for call in calls)
