# SPDX-License-Identifier: Apache-2.0
"""Pure. Scopes: the names that a module, a class or a function binds, and the places that use names."""

import ast
from enum import StrEnum

from msgspec import Struct, field

from ci_doctor.compat.reading.guard import Guards

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class BindingKind(StrEnum):
    """How a name gets its value."""

    IMPORT = "import"
    FROM = "from"
    FUNCTION = "def"
    CLASS = "class"
    VALUE = "value"
    PARAMETER = "parameter"
    WITH = "with"
    UNKNOWN = "unknown"


class Binding(Struct, frozen=True, kw_only=True, eq=False):
    """One statement that gives a name a value.

    node: the statement. value: the expression on its right. annotation: what it promises.
    target: the dotted module of an import, with `name` the name in it. level: dots of a relative one.
    """

    kind: BindingKind
    node: ast.AST
    guards: Guards
    value: ast.expr | None = None
    annotation: ast.expr | None = None
    target: str = ""
    name: str = ""
    level: int = 0


class UseKind(StrEnum):
    """A place at which the caller depends on a definition."""

    CALL = "call"
    ATTRIBUTE = "attribute"
    IMPORT = "import"


class UseSite(Struct, frozen=True, kw_only=True, eq=False):
    """A call, an attribute that is read, or a name that is imported.

    `binding` is that of an import; `node` is the expression or the statement.
    """

    kind: UseKind
    node: ast.AST
    guards: Guards
    scope: "NameScope"
    binding: Binding | None = None


class NameScope(Struct, kw_only=True, eq=False):
    """A module, a class, a function or a lambda.

    bindings: by name, in the order of the source. stars: `from x import *`. attributes: what the
    methods of a class assign to `self`, by name. narrowed: expressions whose type a test looks at.
    outer: names that `global` or `nonlocal` declare. marks: the decorators of a class. changed: of a module, what its code adds to
    tables, by name: a key, a table, or None for any other change. module: the dotted name of the module.
    """

    node: ScopeNode
    module: str
    name: str
    parent: "NameScope | None"
    guards: Guards = ()
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    stars: list[Binding] = field(default_factory=list)
    attributes: dict[str, list[tuple["NameScope", Binding]]] = field(default_factory=dict)
    narrowed: set[str] = field(default_factory=set)
    outer: set[str] = field(default_factory=set)
    children: dict[int, "NameScope"] = field(default_factory=dict)
    returns: list[tuple[ast.expr | None, Guards]] = field(default_factory=list)
    marks: Guards = ()
    changed: dict[str, list[ast.expr | None]] = field(default_factory=dict)
    is_generator: bool = False
    is_dynamic: bool = False

    @property
    def qualified(self) -> str:
        """The dotted name below the module: `Class.method`; empty for the module itself."""
        if self.parent is None:
            return ""
        above = self.parent.qualified
        return f"{above}.{self.name}" if above else self.name

    @property
    def is_class(self) -> bool:
        """Whether the body is that of a class."""
        return isinstance(self.node, ast.ClassDef)

    def root(self) -> "NameScope":
        """The scope of the module."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope
