# SPDX-License-Identifier: Apache-2.0
"""Pure. What stands in a function or class, found once: names, results, attributes it sets."""

import ast
from collections.abc import Iterator, Sequence

from ci_doctor.preload.audit.module_code import (
    Bindings,
    Function,
    ModuleCode,
    appended_to,
    blocks_of,
    collect,
)

_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_PROPERTIES = ("property", "cached_property", "functools.cached_property", "lazyproperty")

# An attribute set on the object of a method, and the method.
SetAttribute = tuple[Function, ast.expr]


class FunctionIndex:
    """Answers about nodes of syntax trees, each computed once. Keeps the nodes alive."""

    def __init__(self) -> None:
        self._bindings: dict[ast.AST, Bindings] = {}
        self._results: dict[ast.AST, list[ast.expr]] = {}
        self._attributes: dict[ast.ClassDef, dict[str, list[SetAttribute]]] = {}
        self._globals: dict[ast.Module, dict[str, list[SetAttribute]]] = {}

    def bindings(self, code: ModuleCode, node: ast.AST) -> Bindings:
        """The names that the body of a function or class binds."""
        if node not in self._bindings:
            local_bindings: Bindings = {}
            if not isinstance(node, ast.Lambda):
                collect(code, getattr(node, "body", ()), local_bindings, [])
            self._bindings[node] = local_bindings
        return self._bindings[node]

    def results(self, node: Function | ast.Lambda) -> list[ast.expr]:
        """The expressions that it returns."""
        if isinstance(node, ast.Lambda):
            return [node.body]
        if node not in self._results:
            returned = (s.value for s in _statements(node.body) if isinstance(s, ast.Return))
            self._results[node] = [value for value in returned if value is not None]
        return self._results[node]

    def attributes(self, node: ast.ClassDef) -> dict[str, list[SetAttribute]]:
        """What methods of the class assign to attributes of their object."""
        if node not in self._attributes:
            by_name: dict[str, list[SetAttribute]] = {}
            for method in node.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                    _attributes_of(method, by_name)
            self._attributes[node] = by_name
        return self._attributes[node]

    def global_assignments(self, tree: ast.Module) -> dict[str, list[SetAttribute]]:
        """What functions assign to names that they declare `global`."""
        if tree not in self._globals:
            assignments: dict[str, list[SetAttribute]] = {}
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    _globals_of(node, assignments)
            self._globals[tree] = assignments
        return self._globals[tree]


def parameters(node: Function | ast.Lambda) -> list[ast.arg]:
    """Those that a position may fill."""
    return [*node.args.posonlyargs, *node.args.args]


def all_parameters(node: Function | ast.Lambda) -> list[ast.arg]:
    """All, also those that take the rest."""
    rest = [each for each in (node.args.vararg, node.args.kwarg) if each is not None]
    return [*parameters(node), *node.args.kwonlyargs, *rest]


def defaults(node: Function | ast.Lambda) -> dict[str, ast.expr]:
    """The default of each parameter that has one."""
    known: dict[str, ast.expr] = {}
    positional = parameters(node)
    given = node.args.defaults
    for parameter, value in zip(positional[len(positional) - len(given) :], given, strict=True):
        known[parameter.arg] = value
    for parameter, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        if default is not None:
            known[parameter.arg] = default
    return known


def decorator_names(node: ast.AST) -> list[str]:
    """The decorators, as they are written, without arguments."""
    names = []
    for decorator in getattr(node, "decorator_list", ()):
        plain = decorator.func if isinstance(decorator, ast.Call) else decorator
        names.append(ast.unparse(plain))
    return names


def is_property(node: ast.AST) -> bool:
    """Whether reading the attribute calls the function."""
    return any(name in _PROPERTIES for name in decorator_names(node))


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for block in blocks_of(statement):
            yield from _statements(block)


def _attributes_of(method: Function, attributes: dict[str, list[SetAttribute]]) -> None:
    own = parameters(method)[:1]
    if not own:
        return
    for statement in _statements(method.body):
        for target, value in _assignments(statement):
            if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name):
                continue
            if target.value.id == own[0].arg:
                attributes.setdefault(target.attr, []).append((method, value))


def _globals_of(node: Function, assignments: dict[str, list[SetAttribute]]) -> None:
    declared: set[str] = set()
    for statement in _statements(node.body):
        if isinstance(statement, ast.Global):
            declared.update(statement.names)
    if not declared:
        return
    for statement in _statements(node.body):
        for target, value in _assignments(statement):
            if isinstance(target, ast.Name) and target.id in declared:
                assignments.setdefault(target.id, []).append((node, value))


def _assignments(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield target, statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield statement.target, statement.value
    elif isinstance(statement, ast.Expr):
        appended = appended_to(statement.value)
        if appended is not None:
            yield appended
