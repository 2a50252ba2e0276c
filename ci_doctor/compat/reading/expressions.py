# SPDX-License-Identifier: Apache-2.0
"""Pure. Reads the places in an expression that use names, each with the conditions inside it."""

import ast
from typing import TYPE_CHECKING, Any, Final, Protocol

from ci_doctor.compat.reading.guard import Guard, GuardKind, Guards
from ci_doctor.compat.reading.name_scope import Binding, BindingKind, NameScope, UseKind, UseSite

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Such code gives a module names that no statement shows.
_DYNAMIC: Final = frozenset({"globals", "exec"})
_SELF: Final = frozenset({"self", "cls"})
# These look at the type of their argument, so that it may be a narrower one after them.
_NARROWING: Final = frozenset({"isinstance", "issubclass", "type", "callable"})
# Most nodes: nothing in them uses a name.
_LEAVES: Final = frozenset(
    {type(None), str, int, ast.Name, ast.Constant, ast.Load, ast.Store, ast.Del}
)
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


# Methods by which a list, a set or a table gets other content.
_CHANGING: Final = frozenset(
    {
        "append",
        "add",
        "extend",
        "update",
        "insert",
        "remove",
        "discard",
        "pop",
        "clear",
        "setdefault",
    }
)


def calls_globals(node: ast.expr) -> bool:
    """Whether the expression is `globals()`."""
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "globals"
    )


def _is_read_of_globals(node: ast.Attribute) -> bool:
    """`globals().get` and its like give a module no name."""
    return node.attr in {"get", "keys", "values", "items", "copy"} and calls_globals(node.value)


class LambdaScope(Protocol):
    """Makes the reader of a lambda's body."""

    def __call__(self, node: ast.Lambda, guards: Guards, /) -> "ExpressionReader":
        """Return a reader whose scope has the lambda's parameters."""
        ...


class ExpressionReader:
    """Appends the uses in the expressions of one scope to `sites`."""

    def __init__(self, scope: NameScope, sites: list[UseSite], lambda_scope: LambdaScope) -> None:
        self._scope = scope
        self._sites = sites
        self._lambda_scope = lambda_scope
        self._readers: dict[type[ast.AST], Callable[[Any, Guards], None]] = {
            ast.Call: self._call,
            ast.Attribute: self._attribute,
            ast.IfExp: self._choice,
            ast.Compare: self._compare,
            ast.BoolOp: self._chain,
            ast.Lambda: self._lambda,
            ast.Subscript: self._subscript,
            ast.NamedExpr: self._named,
            ast.ListComp: self._comprehension,
            ast.SetComp: self._comprehension,
            ast.DictComp: self._comprehension,
            ast.GeneratorExp: self._comprehension,
            ast.Yield: self._yield,
            ast.YieldFrom: self._yield,
        }

    def read(self, node: ast.expr, guards: Guards) -> None:
        """Read one expression that runs under `guards`."""
        reader = self._readers.get(type(node))
        if reader is None:
            self._children(node, guards)
        else:
            reader(node, guards)

    def _children(self, node: ast.AST, guards: Guards) -> None:
        # As `ast.iter_child_nodes`, but past the leaves: half of all reading is here.
        for field in node._fields:
            value = getattr(node, field, None)
            children = value if isinstance(value, list) else (value,)
            for child in children:
                kind = type(child)
                if kind in _LEAVES:
                    continue
                if isinstance(child, ast.expr):
                    self.read(child, guards)
                elif isinstance(child, ast.AST):
                    self._children(child, guards)

    def _call(self, node: ast.Call, guards: Guards) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _DYNAMIC:
            self._root().is_dynamic = True
        if isinstance(node.func, ast.Attribute):
            if _is_read_of_globals(node.func):
                return
            if node.func.attr in _CHANGING and isinstance(node.func.value, ast.Name):
                is_update = node.func.attr == "update" and len(node.args) == 1 and not node.keywords
                change = node.args[0] if is_update else None
                self._root().changed.setdefault(node.func.value.id, []).append(change)
        if name in {"setattr", "vars"} and node.args:
            self._change(node)
        if name in _NARROWING and node.args:
            self._scope.narrowed.add(ast.unparse(node.args[0]))
        site = UseSite(kind=UseKind.CALL, node=node, guards=guards, scope=self._scope)
        self._sites.append(site)
        self._children(node, guards)

    def _change(self, node: ast.Call) -> None:
        """`setattr(self, …)` and `vars(self)` may give the class any name."""
        changed = ast.unparse(node.args[0])
        if changed in _SELF:
            self._mark_class()
        elif "modules" in changed:
            self._root().is_dynamic = True

    def _root(self) -> NameScope:
        return self._scope.root()

    def _mark_class(self) -> None:
        scope: NameScope | None = self._scope
        while scope is not None and not scope.is_class:
            scope = scope.parent
        if scope is not None:
            scope.is_dynamic = True

    def _subscript(self, node: ast.Subscript, guards: Guards) -> None:
        if calls_globals(node.value) and isinstance(node.ctx, ast.Load):
            self.read(node.slice, guards)
            return
        # sys.modules[__name__] = … puts another object in the place of the module.
        if isinstance(node.value, ast.Attribute) and node.value.attr == "modules":
            self._root().is_dynamic = True
        self._children(node, guards)

    def _compare(self, node: ast.Compare, guards: Guards) -> None:
        self.read(node.left, guards)
        for op, right in zip(node.ops, node.comparators, strict=True):
            # `name in globals()` reads.
            if not (isinstance(op, ast.In | ast.NotIn) and calls_globals(right)):
                self.read(right, guards)

    def _attribute(self, node: ast.Attribute, guards: Guards) -> None:
        if node.attr == "__dict__":
            self._mark_class()
        if isinstance(node.ctx, ast.Load):
            site = UseSite(kind=UseKind.ATTRIBUTE, node=node, guards=guards, scope=self._scope)
            self._sites.append(site)
        self.read(node.value, guards)

    def _choice(self, node: ast.IfExp, guards: Guards) -> None:
        self.read(node.test, guards)
        self.read(node.body, (*guards, Guard(kind=GuardKind.TEST, node=node.test)))
        self.read(node.orelse, (*guards, Guard(kind=GuardKind.TEST, node=node.test, holds=False)))

    def _chain(self, node: ast.BoolOp, guards: Guards) -> None:
        holds = isinstance(node.op, ast.And)
        for value in node.values:
            self.read(value, guards)
            guards = (*guards, Guard(kind=GuardKind.TEST, node=value, holds=holds))

    def _lambda(self, node: ast.Lambda, guards: Guards) -> None:
        defaults: Sequence[ast.expr | None] = (*node.args.defaults, *node.args.kw_defaults)
        for default in defaults:
            if default is not None:
                self.read(default, guards)
        self._lambda_scope(node, guards).read(node.body, guards)

    def _named(self, node: ast.NamedExpr, guards: Guards) -> None:
        binding = Binding(kind=BindingKind.VALUE, node=node, guards=guards, value=node.value)
        self._scope.bindings.setdefault(node.target.id, []).append(binding)
        self.read(node.value, guards)

    def _comprehension(self, node: _Comprehension, guards: Guards) -> None:
        # Its own scope in Python. Here its names only make names of the function around it unknown.
        for generator in node.generators:
            for target in ast.walk(generator.target):
                if isinstance(target, ast.Name):
                    unknown = Binding(kind=BindingKind.UNKNOWN, node=node, guards=guards)
                    self._scope.bindings.setdefault(target.id, []).append(unknown)
            self.read(generator.iter, guards)
            for test in generator.ifs:
                self.read(test, guards)
                guards = (*guards, Guard(kind=GuardKind.TEST, node=test))
        if isinstance(node, ast.DictComp):
            self.read(node.key, guards)
            self.read(node.value, guards)
        else:
            self.read(node.elt, guards)

    def _yield(self, node: ast.Yield | ast.YieldFrom, guards: Guards) -> None:
        self._scope.is_generator = True
        self._children(node, guards)
