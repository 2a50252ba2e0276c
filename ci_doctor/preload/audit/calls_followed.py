# SPDX-License-Identifier: Apache-2.0
"""Reads source files: follows calls into the code that they run, and notes threads they start."""

import ast
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from ci_doctor.preload.audit.calls import IMPORTERS, given_first, imported_names
from ci_doctor.preload.audit.events import CALLBACKS, Arms, SourceSite, ThreadStart
from ci_doctor.preload.audit.limits import Limits
from ci_doctor.preload.audit.recorder import Recorder, site_of
from ci_doctor.preload.audit.resolver import Resolver
from ci_doctor.preload.audit.starters import (
    JOINED_BY_WITH,
    JOINS,
    KEEPERS,
    RUN_IN_EXECUTOR,
    UNBOUND,
    starter_of,
    usual_name,
)
from ci_doctor.preload.audit.values import (
    ClassValue,
    ExternalValue,
    FunctionValue,
    InstanceValue,
    MethodValue,
    PartialValue,
    Scope,
    Value,
)

# Nested calls that are followed, and how often one function is: with other arguments, for other
# objects, in other arms of conditions.
DEEPEST_CALL = 60
MOST_WALKS = 12
MOST_CALLBACKS = 400


class Walker(Protocol):
    """What goes through the code that a call runs."""

    over: Callable[[], bool]

    def block(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        """Go through statements."""

    def expressions(self, expressions: Iterable[ast.expr | None], scope: Scope) -> None:
        """Go through the calls in expressions."""

    def load(self, module: str, site: SourceSite, names: Sequence[str] = ()) -> None:
        """Import a module."""


class FollowedCalls:
    """The calls of one walk."""

    def __init__(
        self, resolver: Resolver, limits: Limits, recorder: Recorder, walker: Walker
    ) -> None:
        self._resolver = resolver
        self._limits = limits
        self._recorder = recorder
        self._walker = walker
        self._depth = 0
        self._walked: dict[tuple[object, ...], list[Arms]] = {}
        self._times: dict[ast.AST, int] = {}
        self._callbacks: dict[ast.AST, FunctionValue] = {}

    @contextlib.contextmanager
    def at_depth_0(self) -> Iterator[None]:
        """Calls within count from zero."""
        depth, self._depth = self._depth, 0
        yield
        self._depth = depth

    def follow_all(self, expression: ast.expr, scope: Scope) -> None:
        """Follow the calls in an expression."""
        for call, is_awaited in self._resolver.calls.calls_of(expression):
            count = len(self._recorder.events)
            self._follow(call, scope)
            if is_awaited:
                self._awaited(call, count)

    def call(self, value: Value, call: ast.Call | None, scope: Scope) -> None:
        """Go through what calling `value` runs."""
        match value:
            case FunctionValue():
                self._function(value, call, scope)
            case ClassValue():
                made = InstanceValue(value, call, scope)
                for name in ("__new__", "__init__", "__post_init__"):
                    self._method(made, name, call, scope)
            case PartialValue():
                self.call(value.function, call, scope)
            case InstanceValue(kind=ClassValue()):
                self._method(value, "__call__", call, scope)
            case ExternalValue() | MethodValue():
                self._external(value, call, scope)
            case _:
                pass

    def decorate(self, decorator: FunctionValue, function: FunctionValue) -> None:
        """Go through what applying a decorator runs."""
        if self._is_new(decorator, frozenset({function.node})):
            given = given_first(decorator, (function,))
            self._body(decorator, self._resolver.scope_of(decorator, given))

    def enter(self, manager: InstanceValue, scope: Scope) -> None:
        """Begin a `with`."""
        if isinstance(manager.kind, ClassValue):
            self._method(manager, "__enter__", None, scope)

    def leave(self, manager: InstanceValue, scope: Scope) -> None:
        """End a `with`."""
        if isinstance(manager.kind, ClassValue):
            self._method(manager, "__exit__", None, scope)
        elif usual_name(manager.kind.name) in JOINED_BY_WITH:
            self._recorder.joined(manager.call)

    def keep(self, function: FunctionValue) -> None:
        """Note a function that was handed to code outside."""
        self._callbacks.setdefault(function.node, function)

    def run_callbacks(self) -> None:
        """Go through the functions that were kept: somebody may call them, one or another."""
        self._recorder.is_possible = True
        done = 0
        while self._callbacks and done < MOST_CALLBACKS and not self._walker.over():
            _, function = self._callbacks.popitem()
            # Only one of them is called, as far as an audit can know.
            self._recorder.arms.append((CALLBACKS, done))
            self._function(function, None, function.scope)
            self._recorder.leave_arms(1)
            done += 1
        self._limits.callbacks += done

    def _follow(self, call: ast.Call, scope: Scope) -> None:
        callees = self._resolver.resolve(call.func, scope)
        if not callees:
            self._unknown(call, scope)
        for callee in callees:
            self.call(callee, call, scope)

    def _awaited(self, call: ast.Call, count: int) -> None:
        """Note that the coroutine goes on when the thread is done."""
        for event in self._recorder.events[count:]:
            if isinstance(event, ThreadStart) and event.made_by is call:
                self._recorder.joined(call)
                return

    def _unknown(self, call: ast.Call, scope: Scope) -> None:
        if isinstance(call.func, ast.Attribute):
            if call.func.attr == "run_in_executor":
                self._recorder.started("run_in_executor", RUN_IN_EXECUTOR, None, call, scope)
                return
            if call.func.attr == "start" and not call.args:
                self._limits.unknown_starts[site_of(call, scope)] = None
        self._keep_arguments(call, scope)

    def _method(
        self, holder: InstanceValue, name: str, call: ast.Call | None, scope: Scope
    ) -> None:
        for method in self._resolver.attribute(holder, name):
            if isinstance(method, FunctionValue):
                self._function(method, call, scope)

    def _function(self, function: FunctionValue, call: ast.Call | None, scope: Scope) -> None:
        given = self._functions_in(call, scope)
        if self._is_new(function, given):
            self._body(function, self._resolver.body_scope(function, call, scope))

    def _is_new(self, function: FunctionValue, given: frozenset[object]) -> bool:
        """Whether going through the body may show something that it has not shown before."""
        if self._depth >= DEEPEST_CALL or self._walker.over():
            return False
        times = self._times.get(function.node, 0)
        # A method does the same for each object of a class, if the object was made alike.
        itself = function.itself
        like = (itself.kind, itself.call) if isinstance(itself, InstanceValue) else itself
        arms = set(self._recorder.arms)
        before = self._walked.setdefault((function.node, like, given), [])
        if times >= MOST_WALKS or any(set(each) <= arms for each in before):
            return False
        before.append(self._recorder.arms_now)
        self._times[function.node] = times + 1
        return True

    def _body(self, function: FunctionValue, body: Scope) -> None:
        self._depth += 1
        if isinstance(function.node, ast.Lambda):
            self._walker.expressions([function.node.body], body)
        else:
            self._walker.block(function.node.body, body)
        self._depth -= 1

    def _functions_in(self, call: ast.Call | None, scope: Scope) -> frozenset[object]:
        """The functions and classes among the arguments: with others the callee does others."""
        values = self._arguments(call, scope)
        return frozenset(
            value.node for value in values if isinstance(value, FunctionValue | ClassValue)
        )

    def _arguments(self, call: ast.Call | None, scope: Scope) -> Iterator[Value]:
        if call is None:
            return
        for given in (*call.args, *(keyword.value for keyword in call.keywords)):
            # Only these may stand for functions.
            if isinstance(given, ast.Name | ast.Attribute | ast.Lambda | ast.Call):
                yield from self._resolver.resolve(given, scope)

    def _external(
        self, callee: ExternalValue | MethodValue, call: ast.Call | None, scope: Scope
    ) -> None:
        name = usual_name(callee.name)
        itself = callee.itself if isinstance(callee, MethodValue) else None
        starter = starter_of(name)
        if itself is None and call is not None and call.args and name in UNBOUND:
            # `Thread.start(self)`
            for value in self._resolver.resolve(call.args[0], scope):
                itself = value
        if starter is not None:
            self._recorder.started(name, starter, itself, call, scope)
        elif name in JOINS and isinstance(itself, InstanceValue):
            self._recorder.joined(itself.call)
        elif name in IMPORTERS and call is not None:
            self._import(call, scope)
        elif call is not None and name not in KEEPERS:
            self._keep_arguments(call, scope)

    def _import(self, call: ast.Call, scope: Scope) -> None:
        """`import_module("name")`."""
        names = imported_names(self._resolver, call, scope)
        if not names:
            self._limits.dynamic_imports[site_of(call, scope)] = None
        for name in names:
            self._walker.load(name, site_of(call, scope))

    def _keep_arguments(self, call: ast.Call, scope: Scope) -> None:
        for value in self._arguments(call, scope):
            if isinstance(value, PartialValue) and isinstance(value.function, FunctionValue):
                self.keep(value.function)
            elif isinstance(value, FunctionValue):
                self.keep(value)
