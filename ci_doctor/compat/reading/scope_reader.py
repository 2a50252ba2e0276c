# SPDX-License-Identifier: Apache-2.0
"""Pure. Reads the scopes of a module from its syntax tree, each name and use with its conditions."""

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ci_doctor.compat.reading.control_flow import afterwards, last_word, suppressed
from ci_doctor.compat.reading.expressions import ExpressionReader, calls_globals
from ci_doctor.compat.reading.guard import Except, Guard, GuardKind, Guards
from ci_doctor.compat.reading.name_scope import (
    Binding,
    BindingKind,
    FunctionNode,
    NameScope,
    UseKind,
    UseSite,
)
from ci_doctor.compat.reading.parsed_module import ReadModule

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
        self._loops: dict[str, tuple[str, ...]] = {}
        self._expressions = ExpressionReader(scope, module.sites, self.lambda_scope)
        self._readers: dict[type[ast.AST], Callable[[Any, Guards], None]] = {
            ast.FunctionDef: self._function,
            ast.AsyncFunctionDef: self._function,
            ast.ClassDef: self._class,
            ast.If: self._if,
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
        }

    def block(self, statements: Iterable[ast.stmt], guards: Guards) -> None:
        """Read statements in order; what follows a branch that ends the block runs on its opposite."""
        for statement in statements:
            self._statement(statement, guards)
            guards = (*guards, *afterwards(statement))

    def _statement(self, statement: ast.stmt, guards: Guards) -> None:
        reader = self._readers.get(type(statement))
        if reader is not None:
            reader(statement, guards)
            return
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.expr):
                self._expressions.read(child, guards)

    def bind(self, name: str, binding: Binding) -> None:
        """Keep one more way in which `name` gets a value."""
        self._scope.bindings.setdefault(name, []).append(binding)

    def lambda_scope(self, node: ast.Lambda, guards: Guards) -> ExpressionReader:
        """The reader for the body of a lambda, whose parameters nobody knows."""
        inner = self._inner(node, "<lambda>", guards)
        reader = _ScopeReader(self._module, inner)
        reader.parameters(node.args, node)
        return reader._expressions

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
                self._expressions.read(expression, guards)
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
            self._expressions.read(expression, guards)
        for keyword in node.keywords:
            self._expressions.read(keyword.value, guards)
        inner = self._inner(node, node.name, guards)
        # The body itself runs, whatever the marks say of its tests.
        inner.marks = _marks(node)
        self._module.classes.append(inner)
        _ScopeReader(self._module, inner).block(node.body, guards)

    def _if(self, node: ast.If, guards: Guards) -> None:
        self._expressions.read(node.test, guards)
        yes = Guard(kind=GuardKind.TEST, node=node.test)
        no = Guard(kind=GuardKind.TEST, node=node.test, holds=False)
        self.block(node.body, (*guards, yes))
        self.block(node.orelse, (*guards, no))

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
            self._expressions.read(item.context_expr, inside)
            if item.optional_vars is not None:
                self._bind_target(item.optional_vars, item.context_expr, inside, BindingKind.WITH)
            inside = (*inside, *suppressed(item.context_expr))
        self.block(node.body, inside)

    def _for(self, node: ast.For | ast.AsyncFor, guards: Guards) -> None:
        self._expressions.read(node.iter, guards)
        self._bind_target(node.target, None, guards, BindingKind.UNKNOWN)
        if isinstance(node.target, ast.Name):
            self._loops[node.target.id] = _texts(node.iter)
        self.block((*node.body, *node.orelse), guards)

    def _while(self, node: ast.While, guards: Guards) -> None:
        self._expressions.read(node.test, guards)
        self.block((*node.body, *node.orelse), guards)

    def _match(self, node: ast.Match, guards: Guards) -> None:
        self._expressions.read(node.subject, guards)
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
            kind=UseKind.IMPORT,
            node=binding.node,
            guards=binding.guards,
            scope=self._scope,
            binding=binding,
        )
        self._module.sites.append(site)

    def _assign(self, node: ast.Assign, guards: Guards) -> None:
        self._expressions.read(node.value, guards)
        for target in node.targets:
            self._bind_target(target, node.value, guards, BindingKind.VALUE)

    def _annotated(self, node: ast.AnnAssign, guards: Guards) -> None:
        if node.value is not None:
            self._expressions.read(node.value, guards)
        binding = Binding(
            kind=BindingKind.VALUE,
            node=node,
            guards=guards,
            value=node.value,
            annotation=node.annotation,
        )
        self._keep_target(node.target, binding)

    def _augmented(self, node: ast.AugAssign, guards: Guards) -> None:
        self._expressions.read(node.value, guards)
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
            self._expressions.read(target, binding.guards)

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
        self._expressions.read(target.value, binding.guards)
        owner = self._scope.parent
        arguments = getattr(self._scope.node, "args", None)
        is_own = (
            owner is not None
            and owner.is_class
            and arguments is not None
            and isinstance(target.value, ast.Name)
            and target.value.id == _first(arguments)
        )
        if is_own and owner is not None:
            owner.attributes.setdefault(target.attr, []).append((self._scope, binding))
        else:
            self._module.patched.add(target.attr)

    def _return(self, node: ast.Return, guards: Guards) -> None:
        if node.value is not None:
            self._expressions.read(node.value, guards)
        self._scope.returns.append((node.value, guards))

    def _outer(self, node: ast.Global | ast.Nonlocal, _guards: Guards) -> None:
        self._scope.outer |= set(node.names)

    def _delete(self, node: ast.Delete, _guards: Guards) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                unknown = Binding(kind=BindingKind.UNKNOWN, node=node, guards=())
                self.bind(target.id, unknown)


def _texts(node: ast.expr) -> tuple[str, ...]:
    """The strings of a list of strings; empty for anything else."""
    elements = node.elts if isinstance(node, ast.List | ast.Tuple) else []
    texts = [each.value for each in elements if isinstance(each, ast.Constant)]
    return tuple(each for each in texts if isinstance(each, str)) if elements else ()


def _marks(node: FunctionNode | ast.ClassDef) -> Guards:
    """The decorators that may keep a test from running; what they do is looked up later."""
    return tuple(
        Guard(kind=GuardKind.MARK, node=each)
        for each in node.decorator_list
        if last_word(each.func if isinstance(each, ast.Call) else each) not in _NO_MARKS
    )


def _first(arguments: ast.arguments) -> str | None:
    names = [*arguments.posonlyargs, *arguments.args]
    return names[0].arg if names else None
