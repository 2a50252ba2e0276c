# SPDX-License-Identifier: Apache-2.0
"""Reads source files: what an expression stands for, as far as the source alone can say.

The order of assignments does not count: a name stands for all that is assigned to it anywhere in
its scope. What is not known has no value.
"""

import ast
import builtins
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ci_doctor.preload.audit.calls import bind_arguments
from ci_doctor.preload.audit.evaluation import (
    attribute_of,
    bound_to,
    call_of,
    distinct,
    evaluate,
    joined,
    of_type,
)
from ci_doctor.preload.audit.functions import FunctionIndex
from ci_doctor.preload.audit.library import Library
from ci_doctor.preload.audit.module_code import Binding
from ci_doctor.preload.audit.statements import CallIndex
from ci_doctor.preload.audit.values import (
    ClassValue,
    Deferred,
    ExternalValue,
    FunctionValue,
    Given,
    ModuleValue,
    Scope,
    TextValue,
    Typed,
    Value,
    Values,
)

# Nested questions, and questions that one question may raise; more only cost time.
DEEPEST = 30
MOST_STEPS = 2000


class Resolver:
    """Answers what expressions stand for. Reads modules of the library as names lead to them."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.index = FunctionIndex()
        self.calls = CallIndex()
        self._scopes: dict[str, Scope] = {}
        self._class_scopes: dict[ClassValue, Scope] = {}
        self._bodies: dict[tuple[FunctionValue, ast.Call | None, Scope], Scope] = {}
        self._known: dict[tuple[ast.expr, Scope], Values] = {}
        self._active: set[tuple[object, object]] = set()
        self._steps = 0
        self._cuts = 0

    def module_scope(self, name: str) -> Scope | None:
        """The names of a module of the audited code."""
        if name not in self._scopes:
            code = self.library.followed_code(name)
            if code is None:
                return None
            self._scopes[name] = Scope(code, code.bindings)
        return self._scopes[name]

    def class_scope(self, kind: ClassValue) -> Scope:
        """The names of a class body."""
        if kind not in self._class_scopes:
            code = kind.scope.code
            bindings = self.index.bindings(code, kind.node)
            scope = Scope(code, bindings, kind.scope, owner=kind, is_class=True)
            self._class_scopes[kind] = scope
        return self._class_scopes[kind]

    def body_scope(self, function: FunctionValue, call: ast.Call | None, caller: Scope) -> Scope:
        """The names in one call of `function`."""
        key = (function, call, caller)
        if key not in self._bodies:
            self._bodies[key] = self.scope_of(function, bind_arguments(function, call, caller))
        return self._bodies[key]

    def scope_of(self, function: FunctionValue, given: Mapping[str, Given]) -> Scope:
        """The names in a call of `function` with these arguments."""
        code = function.scope.code
        return Scope(
            code,
            self.index.bindings(code, function.node),
            function.scope,
            given=given,
            itself=function.itself,
            owner=function.owner or function.scope.owner,
        )

    def resolve(self, expression: ast.expr, scope: Scope) -> Values:
        """The possible values; none if nothing is known."""
        key = (expression, scope)
        known = self._known.get(key)
        if known is not None:
            return known
        if not self._active:
            self._steps = 0
        self._steps += 1
        if key in self._active or len(self._active) > DEEPEST or self._steps > MOST_STEPS:
            self._cuts += 1
            return ()
        cuts = self._cuts
        with self._asking(key):
            values = evaluate(self, expression, scope)
        # An answer for which a question was left open may be incomplete.
        if cuts == self._cuts or values or not self._active:
            self._known[key] = values
        return values

    def lookup(self, name: str, scope: Scope) -> Values:
        """What a name stands for in `scope`."""
        at: Scope | None = scope
        while at is not None:
            if not at.is_class or at is scope:
                values = self._in_scope(name, at)
                if values is not None:
                    return values
            at = at.parent
        if name == "__name__":
            return (TextValue(scope.code.name),)
        if name == "__package__":
            return (TextValue(scope.code.package),)
        return (ExternalValue(f"builtins.{name}"),) if hasattr(builtins, name) else ()

    def attribute(self, value: Value, name: str) -> Values:
        """What `value.name` stands for."""
        return attribute_of(self, value, name)

    def call(self, value: Value, call: ast.Call | None, scope: Scope) -> Values:
        """What calling `value` gives."""
        return call_of(self, value, call, scope)

    def bound(self, binding: Binding, scope: Scope) -> Values:
        """What a binding of `scope` stands for."""
        return bound_to(self, binding, scope)

    def returned(self, function: FunctionValue, body: Scope) -> Values:
        """What `function` returns, in a call with the names `body`."""
        results = self.index.results(function.node)
        results_of_call = joined(self.resolve(expression, body) for expression in results)
        annotation = getattr(function.node, "returns", None)
        if not results_of_call and annotation is not None:
            return of_type(self, annotation, function.scope)
        return results_of_call

    def module_attribute(self, module: str, name: str) -> Values:
        """What a name of a module stands for: a name that it binds, a submodule."""
        scope = self.module_scope(module)
        if scope is not None:
            key = (module, name)
            if key in self._active:
                self._cuts += 1
                return ()
            with self._asking(key):
                values = self._in_scope(name, scope)
            # A package that imports its own submodule binds the name by that import alone.
            if values:
                return values
        submodule = f"{module}.{name}"
        if self.library.follows(module):
            return (ModuleValue(submodule),) if self.library.find(submodule) else ()
        return (ExternalValue(submodule),)

    @contextmanager
    def _asking(self, key: tuple[object, object]) -> Iterator[None]:
        self._active.add(key)
        try:
            yield
        finally:
            self._active.discard(key)

    def _in_scope(self, name: str, scope: Scope) -> Values | None:
        """None if the scope does not bind the name."""
        given = scope.given.get(name)
        if isinstance(given, Deferred):
            return self.resolve(given.expression, given.scope)
        if isinstance(given, Typed):
            return of_type(self, given.annotation, given.scope)
        if given is not None:
            return given
        bindings = scope.bindings.get(name)
        if bindings is None:
            return self._unbound(name, scope)
        values = joined(self.bound(each, scope) for each in bindings)
        if scope.parent is None:
            values = distinct([*values, *self._set_by_functions(name, scope)])
            # `go = None` may be the other arm of a condition.
            values = values or self._by_star(name, scope)
        return values

    def _unbound(self, name: str, scope: Scope) -> Values | None:
        if scope.parent is not None:
            return None
        return self._by_star(name, scope) or self._set_by_functions(name, scope) or None

    def _set_by_functions(self, name: str, scope: Scope) -> Values:
        """What functions assign to the name, declaring it `global`."""
        if not scope.code.has_globals:
            return ()
        values: list[Value] = []
        for node, expression in self.index.global_assignments(scope.code.tree).get(name, ()):
            values += self.resolve(expression, self.scope_of(FunctionValue(node, scope), {}))
        return distinct(values)

    def _by_star(self, name: str, scope: Scope) -> Values:
        for module in scope.code.stars:
            other = self.module_scope(module)
            key = (module, name)
            if other is None or key in self._active or module == scope.code.name:
                continue
            with self._asking(key):
                values = self._in_scope(name, other)
            if values:
                return values
        return ()
