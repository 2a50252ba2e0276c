# SPDX-License-Identifier: Apache-2.0
"""Pure. The code of a module: its syntax tree, the names it binds, and what it imports at once."""

import ast
import warnings
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ci_doctor.preload.audit.conditions import static_truth
from ci_doctor.preload.audit.statements import children_of, expressions_of


class ImportedName(Struct, frozen=True):
    """`import module` (no `name`) or `from module import name`, with an absolute module."""

    module: str
    name: str | None = None


class ElementOf(Struct, frozen=True):
    """An element of what the expression gives, as a `for` loop binds it."""

    expression: ast.expr


class Entered(Struct, frozen=True):
    """What `with expression as name` binds."""

    expression: ast.expr


class Annotated(Struct, frozen=True):
    """A name of which only the type is known."""

    annotation: ast.expr


Function = ast.FunctionDef | ast.AsyncFunctionDef
Binding = Function | ast.ClassDef | ImportedName | ElementOf | Entered | Annotated | ast.expr
Bindings = dict[str, list[Binding]]


class ModuleCode:
    """A parsed module; `file` is for display. `has_globals`: functions may assign its names."""

    def __init__(
        self,
        name: str,
        file: str,
        tree: ast.Module,
        *,
        is_package: bool,
        has_globals: bool = True,
    ) -> None:
        self.name = name
        self.file = file
        self.tree = tree
        self.is_package = is_package
        self.has_globals = has_globals
        self.bindings: Bindings = {}
        self.stars: list[str] = []
        collect(self, tree.body, self.bindings, self.stars)

    @property
    def package(self) -> str:
        """Its `__package__`."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    def absolute(self, node: ast.ImportFrom) -> str | None:
        """The module that `from … import` names; None if it leads above the top."""
        if not node.level:
            return node.module
        parts = self.name.split(".")
        up = node.level - 1 if self.is_package else node.level
        if up >= len(parts):
            return None
        base = parts[: len(parts) - up]
        return ".".join([*base, node.module] if node.module else base)


def parse(source: bytes, file: str) -> ast.Module | None:
    """The syntax tree; None if this Python cannot parse it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source, filename=file)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def collect(code: ModuleCode, body: Sequence[ast.stmt], into: Bindings, stars: list[str]) -> None:
    """Add the names that `body` binds, without the bodies of functions and classes in it."""
    for statement in body:
        _collect_statement(code, statement, into, stars)


def _collect_statement(
    code: ModuleCode, statement: ast.stmt, into: Bindings, stars: list[str]
) -> None:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        into.setdefault(statement.name, []).append(statement)
        return
    if isinstance(statement, ast.Import):
        _collect_import(statement, into)
    elif isinstance(statement, ast.ImportFrom):
        _collect_import_from(code, statement, into, stars)
    else:
        _collect_bound(statement, into)
        for expression in expressions_of(statement):
            _collect_inner(expression, into)
        for block in blocks_of(statement):
            collect(code, block, into, stars)


def _collect_bound(statement: ast.stmt, into: Bindings) -> None:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            _bind(target, statement.value, into)
    elif isinstance(statement, ast.AnnAssign):
        _collect_annotated(statement, into)
    elif isinstance(statement, ast.For | ast.AsyncFor):
        _bind_name(statement.target, ElementOf(statement.iter), into)
    elif isinstance(statement, ast.With | ast.AsyncWith):
        _collect_entered(statement, into)
    elif isinstance(statement, ast.Expr):
        _collect_append(statement.value, into)


def _collect_entered(statement: ast.With | ast.AsyncWith, into: Bindings) -> None:
    for item in statement.items:
        if item.optional_vars is not None:
            _bind_name(item.optional_vars, Entered(item.context_expr), into)


def _collect_append(expression: ast.expr, into: Bindings) -> None:
    """`names.append(value)`: the list holds this value too."""
    appended = appended_to(expression)
    if appended is not None and isinstance(appended[0], ast.Name):
        into.setdefault(appended[0].id, []).append(appended[1])


def appended_to(expression: ast.expr) -> tuple[ast.expr, ast.List] | None:
    """The collection of `collection.append(value)`, and a list of that value."""
    if not isinstance(expression, ast.Call) or len(expression.args) != 1:
        return None
    method = expression.func
    if not isinstance(method, ast.Attribute) or method.attr not in ("append", "add"):
        return None
    return method.value, ast.List(expression.args, ast.Load())


def _collect_inner(expression: ast.expr, into: Bindings) -> None:
    """Names that an expression binds; those of a comprehension are taken for the scope's own."""
    todo: list[ast.AST] = [expression]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.comprehension):
            _bind_name(node.target, ElementOf(node.iter), into)
        elif isinstance(node, ast.NamedExpr):
            _bind_name(node.target, node.value, into)
        todo += children_of(node)


def _collect_import(node: ast.Import, into: Bindings) -> None:
    for alias in node.names:
        if alias.asname:
            into.setdefault(alias.asname, []).append(ImportedName(alias.name))
        else:
            top = alias.name.partition(".")[0]
            into.setdefault(top, []).append(ImportedName(top))


def _collect_import_from(
    code: ModuleCode, node: ast.ImportFrom, into: Bindings, stars: list[str]
) -> None:
    module = code.absolute(node)
    if module is None:
        return
    for alias in node.names:
        if alias.name == "*":
            stars.append(module)
        else:
            name = alias.asname or alias.name
            into.setdefault(name, []).append(ImportedName(module, alias.name))


def _collect_annotated(node: ast.AnnAssign, into: Bindings) -> None:
    if not isinstance(node.target, ast.Name):
        return
    known = into.setdefault(node.target.id, [])
    if node.value is not None:
        known.append(node.value)
    known.append(Annotated(node.annotation))


def _bind(target: ast.expr, value: ast.expr, into: Bindings) -> None:
    targets = _parts(target)
    if targets is None:
        _bind_name(target, value, into)
        return
    values = _parts(value)
    if values is not None and len(targets) == len(values):
        for one, other in zip(targets, values, strict=True):
            _bind(one, other, into)


def _parts(expression: ast.expr) -> list[ast.expr] | None:
    return expression.elts if isinstance(expression, ast.Tuple | ast.List) else None


def _bind_name(target: ast.expr, binding: Binding, into: Bindings) -> None:
    if isinstance(target, ast.Name):
        into.setdefault(target.id, []).append(binding)


def blocks_of(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a compound statement that run in the same scope."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    for field in ("body", "orelse", "finalbody"):
        block = getattr(statement, field, None)
        if isinstance(block, list):
            yield block
    for handler in getattr(statement, "handlers", ()):
        yield handler.body
    for case in getattr(statement, "cases", ()):
        yield case.body


def imports_at_once(code: ModuleCode) -> list[ImportedName]:
    """What importing the module imports in turn, by its own statements outside functions."""
    names: list[ImportedName] = []
    _imports_of(code, code.tree.body, names)
    return names


def _imports_of(code: ModuleCode, body: Sequence[ast.stmt], names: list[ImportedName]) -> None:
    for statement in body:
        if isinstance(statement, ast.Import):
            names += [ImportedName(alias.name) for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            module = code.absolute(statement)
            if module is not None:
                names += [ImportedName(module, alias.name) for alias in statement.names]
        elif isinstance(statement, ast.ClassDef):
            _imports_of(code, statement.body, names)
        elif isinstance(statement, ast.If) and static_truth(statement.test) is False:
            _imports_of(code, statement.orelse, names)
        else:
            for block in blocks_of(statement):
                _imports_of(code, block, names)


def replaces_itself(code: ModuleCode) -> bool:
    """Whether its code puts another object into sys.modules under its own name."""
    return any(_replaces(code, node) for node in _outside_functions(code.tree.body))


def _outside_functions(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for block in blocks_of(statement):
            yield from _outside_functions(block)


def _replaces(code: ModuleCode, node: ast.stmt) -> bool:
    if not isinstance(node, ast.Assign):
        return False
    return any(_is_own_entry(code, target) for target in node.targets)


def _is_own_entry(code: ModuleCode, target: ast.expr) -> bool:
    if not isinstance(target, ast.Subscript):
        return False
    if ast.unparse(target.value) not in ("sys.modules", "modules", "_sys.modules"):
        return False
    key = target.slice
    if isinstance(key, ast.Name):
        return key.id == "__name__"
    return isinstance(key, ast.Constant) and key.value == code.name
