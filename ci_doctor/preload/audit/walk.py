# SPDX-License-Identifier: Apache-2.0
"""Reads source files: goes through code in the order in which a thread would run it.

Both arms of a condition are taken, loops once. Calls are followed as far as they can be resolved.
"""

import ast
from collections.abc import Callable, Iterable, Sequence

from ci_doctor.preload.audit.calls_followed import FollowedCalls
from ci_doctor.preload.audit.conditions import static_truth
from ci_doctor.preload.audit.events import SourceSite, Trace
from ci_doctor.preload.audit.limits import Limits
from ci_doctor.preload.audit.module_code import Function, ImportedName
from ci_doctor.preload.audit.recorder import Recorder, site_of
from ci_doctor.preload.audit.resolver import Resolver
from ci_doctor.preload.audit.statements import ends, expressions_of
from ci_doctor.preload.audit.values import (
    ClassValue,
    FunctionValue,
    InstanceValue,
    MethodValue,
    Scope,
    SuperValue,
    Value,
)

Block = Sequence[ast.stmt]


class Walk:
    """One thread's way through the code.

    `over` tells whether the time is up. `loaded` are modules that are complete at its beginning,
    `running` those that another thread is loading. `main` is run as `__main__`. `trigger` is the
    module to name for a thread that is started while no module is loaded.
    """

    def __init__(  # noqa: PLR0913 - half of them by name
        self,
        resolver: Resolver,
        limits: Limits,
        over: Callable[[], bool],
        *,
        loaded: frozenset[str] = frozenset(),
        running: frozenset[str] = frozenset(),
        main: str = "",
        trigger: str = "",
    ) -> None:
        self.recorder = Recorder(resolver, limits, trigger=trigger, main=main)
        self.calls = FollowedCalls(resolver, limits, self.recorder, self)
        self.over = over
        self._resolver = resolver
        self._library = resolver.library
        self._limits = limits
        self._before = loaded
        self._begun = set(loaded | running)
        self._main = main

    @property
    def trace(self) -> Trace:
        """What was seen so far."""
        return Trace(events=tuple(self.recorder.events), loaded_before=self._before)

    def load(self, module: str, site: SourceSite, names: Sequence[str] = ()) -> None:
        """Import `module` as a statement at `site` does, its parents first."""
        parts = module.split(".")
        for count in range(1, len(parts)):
            self._load_one(".".join(parts[:count]), site, (), direct=False)
        self._load_one(module, site, names, direct=True)
        if self._library.follows(module):
            for name in names:
                self._load_name(module, name, site)

    def block(self, body: Block, scope: Scope) -> None:
        """Go through statements."""
        pushed = 0
        for statement in body:
            if self.over():
                break
            if isinstance(statement, ast.If):
                pushed += self._condition(statement, scope)
            else:
                self._statement(statement, scope)
        self.recorder.leave_arms(pushed)

    def expressions(self, expressions: Iterable[ast.expr | None], scope: Scope) -> None:
        """Go through the calls in expressions."""
        for expression in expressions:
            if expression is not None:
                self.calls.follow_all(expression, scope)

    def _load_one(self, name: str, site: SourceSite, names: Sequence[str], *, direct: bool) -> None:
        self.recorder.imported(name, site, names, direct=direct)
        if name in self._begun:
            return
        self._begun.add(name)
        scope = self._resolver.module_scope(name)
        if scope is None:
            self._limits.not_followed(self._library, name)
        elif not self.over():
            self.recorder.frames.append(name)
            with self.calls.at_depth_0():
                self.block(scope.code.tree.body, scope)
            self.recorder.frames.pop()
        self.recorder.loaded(name)

    def _load_name(self, module: str, name: str, site: SourceSite) -> None:
        """What `from module import name` does besides importing the module."""
        scope = self._resolver.module_scope(module)
        if scope is not None and (name == "*" or _binds(scope, module, name)):
            return
        submodule = f"{module}.{name}"
        if self._library.find(submodule) is not None:
            self._load_one(submodule, site, (), direct=False)
        elif scope is not None and "__getattr__" in scope.bindings:
            for getter in self._resolver.lookup("__getattr__", scope):
                self.calls.call(getter, None, scope)

    def _condition(self, node: ast.If, scope: Scope) -> int:
        """Go through both arms; the number of arms that hold for the rest of the block."""
        self.expressions([node.test], scope)
        is_main = scope.code.name == self._main
        truth = static_truth(node.test, version=self._library.version, is_main=is_main)
        if truth is not None:
            self.block(node.body if truth else node.orelse, scope)
            return 0
        arms = self.recorder.arms
        for arm, block in enumerate((node.body, node.orelse)):
            arms.append((id(node), arm))
            self.block(block, scope)
            arms.pop()
        if ends(node.body) == ends(node.orelse):
            return 0
        # The rest runs only if the other arm was taken.
        arms.append((id(node), 1 if ends(node.body) else 0))
        return 1

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        match node:
            case ast.Import():
                for alias in node.names:
                    self.load(alias.name, site_of(node, scope))
            case ast.ImportFrom():
                module = scope.code.absolute(node)
                if module is not None:
                    names = [alias.name for alias in node.names]
                    self.load(module, site_of(node, scope), names)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._definition(node, scope)
            case ast.ClassDef():
                self._class(node, scope)
            case ast.With() | ast.AsyncWith():
                self._with(node, scope)
            case _:
                self.expressions(expressions_of(node), scope)
                self._blocks(node, scope)

    def _blocks(self, node: ast.stmt, scope: Scope) -> None:
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            parts = getattr(node, field, [])
            for part in parts:
                if isinstance(part, ast.ExceptHandler | ast.match_case):
                    self.block(part.body, scope)
            if parts and isinstance(parts[0], ast.stmt):
                self.block(parts, scope)

    def _definition(self, node: Function, scope: Scope) -> None:
        self.expressions([*node.decorator_list, *node.args.defaults], scope)
        function = FunctionValue(node, scope)
        for decorator in node.decorator_list:
            for value in self._resolver.resolve(decorator, scope):
                if isinstance(value, FunctionValue):
                    self.calls.decorate(value, function)
            plain = decorator.func if isinstance(decorator, ast.Call) else decorator
            # `@app.get("/")`, `@cli.command()`: an object keeps the function.
            for value in self._resolver.resolve(plain, scope):
                if isinstance(value, MethodValue):
                    self.calls.keep(function)

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
        kind = ClassValue(node, scope)
        self.expressions([*node.decorator_list, *node.bases], scope)
        self.block(node.body, self._resolver.class_scope(kind))
        for hook in self._resolver.attribute(SuperValue(kind, kind), "__init_subclass__"):
            if isinstance(hook, FunctionValue):
                self.calls.call(hook, None, scope)

    def _with(self, node: ast.With | ast.AsyncWith, scope: Scope) -> None:
        managers: list[Value] = []
        for item in node.items:
            self.expressions([item.context_expr], scope)
            managers += self._resolver.resolve(item.context_expr, scope)
        made = [manager for manager in managers if isinstance(manager, InstanceValue)]
        for manager in made:
            self.calls.enter(manager, scope)
        self.block(node.body, scope)
        for manager in made:
            self.calls.leave(manager, scope)


def _binds(scope: Scope, module: str, name: str) -> bool:
    """Whether the module has the name without its submodule: it does not import that itself."""
    bindings = scope.bindings.get(name, ())
    return bool(bindings) and ImportedName(module, name) not in bindings
