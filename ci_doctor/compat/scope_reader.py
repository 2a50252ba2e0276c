# SPDX-License-Identifier: Apache-2.0
"""Pure. Reads a module: its scopes, bindings, guards, and the places that use a name."""

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ci_doctor.compat.scopes import (
    Binding,
    BindingKind,
    Except,
    FunctionNode,
    Guard,
    GuardKind,
    Guards,
    NameScope,
    ReadModule,
    UseSite,
)

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
    for branch, holds in ((statement.body, False), (statement.orelse, True)):
        if branch and _never_ends(branch):
            test = statement.test
            return (Guard(kind=GuardKind.TEST, node=test, holds=holds, is_behind=True),)
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


_NO_MARKS: Final = frozenset(
    {"property", "staticmethod", "classmethod", "dataclass", "overload", "setter", "fixture"}
)


def read_module(name: str, path: str, source: bytes, *, is_package: bool) -> ReadModule:
    """The scopes of a module. Raises SyntaxError, ValueError, RecursionError if nobody could run it."""
    tree = ast.parse(source)
    scope = NameScope(node=tree, module=name, name=name, parent=None)
    lines = source.decode("utf-8", "replace").splitlines()
    module = ReadModule(name=name, is_package=is_package, path=path, lines=lines, scope=scope)
    _ScopeReader(module, scope).block(tree.body, ())
    return module


class _ScopeReader:
    """Reads the statements of one scope, and hands inner scopes to readers of their own."""

    def __init__(self, module: ReadModule, scope: NameScope) -> None:
        self._module = module
        self._scope = scope
        self._loops: dict[str, list[str]] = {}
        self._readers: dict[type[ast.AST], Callable[[Any, Guards], None]] = {
            ast.FunctionDef: self._function,
            ast.AsyncFunctionDef: self._function,
            ast.ClassDef: self._class,
            ast.If: self._choice,
            ast.Try: self._try,
            ast.TryStar: self._try,
            ast.With: self._with,
            ast.AsyncWith: self._with,
            ast.For: self._for,
            ast.AsyncFor: self._for,
            ast.While: self._while,
            ast.Match: self._match,
            ast.Import: self._import,
            ast.ImportFrom: self._import_from,
            ast.Assign: self._assign,
            ast.AnnAssign: self._annotated,
            ast.AugAssign: self._augmented,
            ast.Return: self._return,
            ast.Global: self._outer,
            ast.Nonlocal: self._outer,
            ast.Delete: self._delete,
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

    def block(self, statements: Iterable[ast.stmt], guards: Guards) -> None:
        """Read statements in order; what follows a branch that ends the block runs on its opposite."""
        for statement in statements:
            self._read(statement, guards)
            guards = (*guards, *afterwards(statement))

    def _read(self, node: ast.AST, guards: Guards) -> None:
        """Read what runs under `guards`: the uses in expressions, and what statements bind."""
        reader = self._readers.get(type(node))
        if reader is None:
            self._children(node, guards)
        else:
            reader(node, guards)

    def bind(self, name: str, binding: Binding) -> None:
        """Keep one more way in which `name` gets a value."""
        self._scope.bindings.setdefault(name, []).append(binding)

    def _inner(self, node: Any, name: str, guards: Guards) -> NameScope:
        inner = NameScope(
            node=node, module=self._scope.module, name=name, parent=self._scope, guards=guards
        )
        self._scope.children[id(node)] = inner
        return inner

    def _function(self, node: FunctionNode, guards: Guards) -> None:
        self.bind(node.name, Binding(kind=BindingKind.FUNCTION, node=node, guards=guards))
        for expression in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
            if expression is not None:
                self._read(expression, guards)
        guards = (*guards, *_marks(node))
        inner = self._inner(node, node.name, guards)
        reader = _ScopeReader(self._module, inner)
        reader.parameters(node.args, node)
        reader.block(node.body, guards)

    def parameters(self, arguments: ast.arguments, node: ast.AST) -> None:
        """Bind the parameters of a function: what is known of them is their annotation."""
        plain = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        for each in plain:
            kind = BindingKind.PARAMETER
            self.bind(
                each.arg, Binding(kind=kind, node=node, guards=(), annotation=each.annotation)
            )
        for star in (arguments.vararg, arguments.kwarg):
            if star is not None:
                self.bind(star.arg, Binding(kind=BindingKind.UNKNOWN, node=node, guards=()))

    def _class(self, node: ast.ClassDef, guards: Guards) -> None:
        self.bind(node.name, Binding(kind=BindingKind.CLASS, node=node, guards=guards))
        for expression in (*node.decorator_list, *node.bases):
            self._read(expression, guards)
        for keyword in node.keywords:
            self._read(keyword.value, guards)
        inner = self._inner(node, node.name, guards)
        # The body itself runs, whatever the marks say of its tests.
        inner.marks = _marks(node)
        self._module.classes.append(inner)
        _ScopeReader(self._module, inner).block(node.body, guards)

    def _try(self, node: Except, guards: Guards) -> None:
        for index, statement in enumerate(node.body):
            inside = Guard(kind=GuardKind.BODY, node=node, index=index)
            self.block([statement], (*guards, inside))
        for index, handler in enumerate(node.handlers):
            inside = Guard(kind=GuardKind.HANDLER, node=node, index=index)
            if handler.name:
                unknown = Binding(kind=BindingKind.UNKNOWN, node=handler, guards=guards)
                self.bind(handler.name, unknown)
            self.block(handler.body, (*guards, inside))
        self.block(node.orelse, (*guards, Guard(kind=GuardKind.ELSE, node=node)))
        self.block(node.finalbody, guards)

    def _with(self, node: ast.With | ast.AsyncWith, guards: Guards) -> None:
        inside = guards
        for item in node.items:
            self._read(item.context_expr, inside)
            if item.optional_vars is not None:
                self._bind_target(item.optional_vars, item.context_expr, inside, BindingKind.WITH)
            inside = (*inside, *suppressed(item.context_expr))
        self.block(node.body, inside)

    def _for(self, node: ast.For | ast.AsyncFor, guards: Guards) -> None:
        self._read(node.iter, guards)
        self._bind_target(node.target, None, guards, BindingKind.UNKNOWN)
        if isinstance(node.target, ast.Name):
            elements = node.iter.elts if isinstance(node.iter, ast.List | ast.Tuple) else []
            values = [each.value for each in elements if isinstance(each, ast.Constant)]
            self._loops[node.target.id] = [each for each in values if isinstance(each, str)]
        self.block((*node.body, *node.orelse), guards)

    def _while(self, node: ast.While, guards: Guards) -> None:
        self._read(node.test, guards)
        self.block((*node.body, *node.orelse), guards)

    def _match(self, node: ast.Match, guards: Guards) -> None:
        self._read(node.subject, guards)
        self._scope.narrowed.add(ast.unparse(node.subject))
        for case in node.cases:
            for pattern in ast.walk(case.pattern):
                name = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
                if isinstance(name, str):
                    self.bind(name, Binding(kind=BindingKind.UNKNOWN, node=node, guards=guards))
            self.block(case.body, guards)

    def _import(self, node: ast.Import, guards: Guards) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            binding = Binding(
                kind=BindingKind.IMPORT,
                node=node,
                guards=guards,
                target=alias.name,
                name=alias.asname or "",
            )
            self.bind(name, binding)
            self._use_import(binding)

    def _import_from(self, node: ast.ImportFrom, guards: Guards) -> None:
        for alias in node.names:
            binding = Binding(
                kind=BindingKind.FROM,
                node=node,
                guards=guards,
                target=node.module or "",
                name=alias.name,
                level=node.level,
            )
            if alias.name == "*":
                self._scope.stars.append(binding)
            else:
                self.bind(alias.asname or alias.name, binding)
            self._use_import(binding)

    def _use_import(self, binding: Binding) -> None:
        site = UseSite(
            node=binding.node,
            guards=binding.guards,
            scope=self._scope,
            binding=binding,
        )
        self._module.sites.append(site)

    def _assign(self, node: ast.Assign, guards: Guards) -> None:
        self._read(node.value, guards)
        for target in node.targets:
            self._bind_target(target, node.value, guards, BindingKind.VALUE)

    def _annotated(self, node: ast.AnnAssign, guards: Guards) -> None:
        if node.value is not None:
            self._read(node.value, guards)
        binding = Binding(
            kind=BindingKind.VALUE,
            node=node,
            guards=guards,
            value=node.value,
            annotation=node.annotation,
        )
        self._keep_target(node.target, binding)

    def _augmented(self, node: ast.AugAssign, guards: Guards) -> None:
        self._read(node.value, guards)
        self._bind_target(node.target, None, guards, BindingKind.UNKNOWN)

    def _bind_target(
        self, target: ast.expr, value: ast.expr | None, guards: Guards, kind: BindingKind
    ) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            self._bind_parts(target.elts, value, guards)
        elif isinstance(target, ast.Starred):
            self._bind_target(target.value, None, guards, BindingKind.UNKNOWN)
        else:
            self._keep_target(target, Binding(kind=kind, node=target, guards=guards, value=value))

    def _bind_parts(
        self, targets: Sequence[ast.expr], value: ast.expr | None, guards: Guards
    ) -> None:
        parts: Sequence[ast.expr | None] = [None] * len(targets)
        if isinstance(value, ast.Tuple) and len(value.elts) == len(targets):
            parts = value.elts
        for target, part in zip(targets, parts, strict=True):
            kind = BindingKind.UNKNOWN if part is None else BindingKind.VALUE
            # What is unpacked says where an unknown part comes from.
            self._bind_target(target, value if part is None else part, guards, kind)

    def _keep_target(self, target: ast.expr, binding: Binding) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, binding)
        elif isinstance(target, ast.Attribute):
            self._keep_attribute(target, binding)
        else:
            if isinstance(target, ast.Subscript):
                if isinstance(target.value, ast.Name):
                    self._scope.root().changed.setdefault(target.value.id, []).append(target.slice)
                if self._makes_globals(target, binding.guards):
                    return
            self._read(target, binding.guards)

    def _makes_globals(self, target: ast.Subscript, guards: Guards) -> bool:
        """Bind the names of `for name in ["a", "b"]: globals()[name] = …`; whether the line is such a one."""
        names = self._loops.get(getattr(target.slice, "id", ""), ())
        if not names or not calls_globals(target.value):
            return False
        for name in names:
            unknown = Binding(kind=BindingKind.UNKNOWN, node=target, guards=guards)
            self._scope.root().bindings.setdefault(name, []).append(unknown)
        return True

    def _keep_attribute(self, target: ast.Attribute, binding: Binding) -> None:
        self._read(target.value, binding.guards)
        owner = self._scope.parent
        arguments = getattr(self._scope.node, "args", None)
        plain = [] if arguments is None else [*arguments.posonlyargs, *arguments.args]
        first = [each.arg for each in plain[:1]]
        name = target.value.id if isinstance(target.value, ast.Name) else None
        if owner is not None and owner.is_class and [name] == first:
            owner.attributes.setdefault(target.attr, []).append((self._scope, binding))
        else:
            self._module.patched.add(target.attr)

    def _return(self, node: ast.Return, guards: Guards) -> None:
        if node.value is not None:
            self._read(node.value, guards)
        self._scope.returns.append((node.value, guards))

    def _outer(self, node: ast.Global | ast.Nonlocal, _guards: Guards) -> None:
        self._scope.outer |= set(node.names)

    def _delete(self, node: ast.Delete, _guards: Guards) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                unknown = Binding(kind=BindingKind.UNKNOWN, node=node, guards=())
                self.bind(target.id, unknown)

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
                    self._read(child, guards)
                elif isinstance(child, ast.AST):
                    self._children(child, guards)

    def _call(self, node: ast.Call, guards: Guards) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _DYNAMIC:
            self._scope.root().is_dynamic = True
        if isinstance(node.func, ast.Attribute):
            # `globals().get` and its like give a module no name.
            is_read = node.func.attr in {"get", "keys", "values", "items", "copy"}
            if is_read and calls_globals(node.func.value):
                return
            if node.func.attr in _CHANGING and isinstance(node.func.value, ast.Name):
                is_update = node.func.attr == "update" and len(node.args) == 1 and not node.keywords
                change = node.args[0] if is_update else None
                self._scope.root().changed.setdefault(node.func.value.id, []).append(change)
        if name in {"setattr", "vars"} and node.args:
            self._change(node)
        if name in _NARROWING and node.args:
            self._scope.narrowed.add(ast.unparse(node.args[0]))
        site = UseSite(node=node, guards=guards, scope=self._scope)
        self._module.sites.append(site)
        self._children(node, guards)

    def _change(self, node: ast.Call) -> None:
        """`setattr(self, …)` and `vars(self)` may give the class any name."""
        changed = ast.unparse(node.args[0])
        if changed in _SELF:
            self._mark_class()
        elif "modules" in changed:
            self._scope.root().is_dynamic = True

    def _mark_class(self) -> None:
        scope: NameScope | None = self._scope
        while scope is not None and not scope.is_class:
            scope = scope.parent
        if scope is not None:
            scope.is_dynamic = True

    def _subscript(self, node: ast.Subscript, guards: Guards) -> None:
        if calls_globals(node.value) and isinstance(node.ctx, ast.Load):
            self._read(node.slice, guards)
            return
        # sys.modules[__name__] = … puts another object in the place of the module.
        if isinstance(node.value, ast.Attribute) and node.value.attr == "modules":
            self._scope.root().is_dynamic = True
        self._children(node, guards)

    def _compare(self, node: ast.Compare, guards: Guards) -> None:
        self._read(node.left, guards)
        for op, right in zip(node.ops, node.comparators, strict=True):
            # `name in globals()` reads.
            if not (isinstance(op, ast.In | ast.NotIn) and calls_globals(right)):
                self._read(right, guards)

    def _attribute(self, node: ast.Attribute, guards: Guards) -> None:
        if node.attr == "__dict__":
            self._mark_class()
        if isinstance(node.ctx, ast.Load):
            site = UseSite(node=node, guards=guards, scope=self._scope)
            self._module.sites.append(site)
        self._read(node.value, guards)

    def _choice(self, node: ast.IfExp | ast.If, guards: Guards) -> None:
        self._read(node.test, guards)
        yes = Guard(kind=GuardKind.TEST, node=node.test)
        no = Guard(kind=GuardKind.TEST, node=node.test, holds=False)
        for branch, guard in ((node.body, yes), (node.orelse, no)):
            if isinstance(branch, list):
                self.block(branch, (*guards, guard))
            else:
                self._read(branch, (*guards, guard))

    def _chain(self, node: ast.BoolOp, guards: Guards) -> None:
        holds = isinstance(node.op, ast.And)
        for value in node.values:
            self._read(value, guards)
            guards = (*guards, Guard(kind=GuardKind.TEST, node=value, holds=holds))

    def _lambda(self, node: ast.Lambda, guards: Guards) -> None:
        defaults: Sequence[ast.expr | None] = (*node.args.defaults, *node.args.kw_defaults)
        for default in defaults:
            if default is not None:
                self._read(default, guards)
        # Nobody knows its parameters.
        reader = _ScopeReader(self._module, self._inner(node, "<lambda>", guards))
        reader.parameters(node.args, node)
        reader._read(node.body, guards)

    def _named(self, node: ast.NamedExpr, guards: Guards) -> None:
        binding = Binding(kind=BindingKind.VALUE, node=node, guards=guards, value=node.value)
        self._scope.bindings.setdefault(node.target.id, []).append(binding)
        self._read(node.value, guards)

    def _comprehension(self, node: _Comprehension, guards: Guards) -> None:
        # Its own scope in Python. Here its names only make names of the function around it unknown.
        for generator in node.generators:
            for target in ast.walk(generator.target):
                if isinstance(target, ast.Name):
                    unknown = Binding(kind=BindingKind.UNKNOWN, node=node, guards=guards)
                    self._scope.bindings.setdefault(target.id, []).append(unknown)
            self._read(generator.iter, guards)
            for test in generator.ifs:
                self._read(test, guards)
                guards = (*guards, Guard(kind=GuardKind.TEST, node=test))
        if isinstance(node, ast.DictComp):
            self._read(node.key, guards)
            self._read(node.value, guards)
        else:
            self._read(node.elt, guards)

    def _yield(self, node: ast.Yield | ast.YieldFrom, guards: Guards) -> None:
        self._scope.is_generator = True
        self._children(node, guards)


def _marks(node: FunctionNode | ast.ClassDef) -> Guards:
    """The decorators that may keep a test from running; what they do is looked up later."""
    return tuple(
        Guard(kind=GuardKind.MARK, node=each)
        for each in node.decorator_list
        if last_word(each.func if isinstance(each, ast.Call) else each) not in _NO_MARKS
    )
