# SPDX-License-Identifier: Apache-2.0
"""Reads source files: which function a thread runs."""

import ast
from collections.abc import Iterator

from ci_doctor.preload.audit.calls import IMPORTERS, argument
from ci_doctor.preload.audit.resolver import Resolver
from ci_doctor.preload.audit.starters import Starter
from ci_doctor.preload.audit.values import (
    ClassValue,
    ExternalValue,
    FunctionValue,
    InstanceValue,
    PartialValue,
    Scope,
    Value,
    Values,
)

_LONGEST = 60


def targets_of(
    resolver: Resolver,
    starter: Starter,
    itself: Value | None,
    call: ast.Call | None,
    scope: Scope,
) -> tuple[tuple[FunctionValue, ...], str]:
    """The functions of the audited code that the thread may run, and how the source names them."""
    if starter.of_library:
        return (), "code of the standard library"
    if not starter.from_object:
        return _given(resolver, starter, call, scope)
    if not isinstance(itself, InstanceValue):
        return (), "not known"
    if isinstance(itself.kind, ClassValue):
        return _of_subclass(resolver, starter, itself)
    if itself.scope is None:
        return (), "not known"
    return _given(resolver, starter, itself.call, itself.scope)


def _of_subclass(
    resolver: Resolver, starter: Starter, itself: InstanceValue
) -> tuple[tuple[FunctionValue, ...], str]:
    """Its own `run`, else what it hands to the constructor of its base."""
    own = _functions(resolver, resolver.attribute(itself, "run"))
    if own:
        return own, own[0].name
    for method in resolver.attribute(itself, "__init__"):
        if not isinstance(method, FunctionValue):
            continue
        body = resolver.body_scope(method, itself.call, itself.scope or method.scope)
        for call in _base_calls(method):
            targets = _given(resolver, starter, call, body)
            if targets[0]:
                return targets
    if itself.scope is None:
        return (), "not known"
    return _given(resolver, starter, itself.call, itself.scope)


def _base_calls(method: FunctionValue) -> Iterator[ast.Call]:
    for node in ast.walk(method.node):
        if isinstance(node, ast.Call) and _is_init(node.func):
            yield node


def _is_init(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr == "__init__"


def _given(
    resolver: Resolver, starter: Starter, call: ast.Call | None, scope: Scope
) -> tuple[tuple[FunctionValue, ...], str]:
    expression = None
    if call is not None:
        expression = argument(call, starter.position, starter.keyword)
    if expression is None:
        return (), "not known"
    text = ast.unparse(expression)
    shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    values = resolver.resolve(expression, scope)
    if call is not None and any(_is_importer(value) for value in values):
        return _imports(starter, call, expression, scope), shown
    return _functions(resolver, values), shown


def _is_importer(value: Value) -> bool:
    return isinstance(value, ExternalValue) and value.name in IMPORTERS


def _imports(
    starter: Starter, call: ast.Call, importer: ast.expr, scope: Scope
) -> tuple[FunctionValue, ...]:
    """A thread that runs `import_module` itself: a function for each name that it is given."""
    given = argument(call, -1, "args")
    rest = call.args[starter.position + 1 :]
    for expression in (given, *rest):
        if isinstance(expression, ast.Tuple | ast.List):
            rest = expression.elts
            break
    none = ast.arguments([], [], None, [], [], None, [])
    lambdas = []
    for number, _ in enumerate(rest):
        body = ast.copy_location(ast.Call(importer, rest[number:], []), call)
        lambdas.append(FunctionValue(ast.Lambda(none, body), scope))
    return tuple(lambdas)


def _functions(resolver: Resolver, values: Values) -> tuple[FunctionValue, ...]:
    functions: dict[FunctionValue, None] = {}
    for value in values:
        if isinstance(value, FunctionValue):
            functions[value] = None
        elif isinstance(value, PartialValue):
            functions.update(dict.fromkeys(_functions(resolver, (value.function,))))
        elif isinstance(value, InstanceValue) and isinstance(value.kind, ClassValue):
            called = resolver.attribute(value, "__call__")
            functions.update(dict.fromkeys(_functions(resolver, called)))
    return tuple(functions)
