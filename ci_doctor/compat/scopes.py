# SPDX-License-Identifier: Apache-2.0
"""Pure. The scopes of a module, what each name is bound to in them, and the modules of a tree."""

import ast
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

Except = ast.Try | ast.TryStar


class GuardKind(StrEnum):
    """Which part of a compound statement a line stands in."""

    TEST = "test"
    BODY = "try"
    HANDLER = "except"
    ELSE = "else"
    SUPPRESS = "suppress"
    MARK = "mark"


class Guard(Struct, frozen=True, kw_only=True, eq=False):
    """One condition.

    node: the test of an `if`, the `try`, the exceptions that a `with suppress(...)` names, a decorator
    or a call of `importorskip`, which may keep a test from running.
    holds: whether the test must be true. index: the statement of a `try` body it stands in, or the
    number of the handler. is_behind: the line stands behind an `if` that leaves the block otherwise.
    """

    kind: GuardKind
    node: ast.AST
    holds: bool = True
    index: int = 0
    is_behind: bool = False


Guards = tuple[Guard, ...]


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


class UseSite(Struct, frozen=True, kw_only=True, eq=False):
    """A call, an attribute that is read, or a name that is imported.

    `binding` is that of an import; `node` is the expression or the statement.
    """

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


class ReadModule(Struct, kw_only=True, eq=False):
    """A module: its scopes, and the places that use names, in the order of the source."""

    name: str
    is_package: bool
    path: str
    lines: Sequence[str]
    scope: NameScope
    sites: list[UseSite] = field(default_factory=list)
    classes: list[NameScope] = field(default_factory=list)
    patched: set[str] = field(default_factory=set)


_SOURCE_ROOTS: Final = ("", "src/", "python/", "lib/")
_DATA_ROOTS: Final = (".data/purelib/", ".data/platlib/")
_EXTENSIONS: Final = (".so", ".pyd", ".pyx", ".cpp")


class ModuleFile(Struct, frozen=True, kw_only=True):
    """The file of a module. `path` is None for one that is compiled, and for a namespace package.

    compiled: the file of one that is compiled.
    """

    name: str
    path: str | None
    is_package: bool = False
    compiled: str | None = None


class ModuleIndex(Struct, frozen=True, kw_only=True):
    """The modules of a tree by dotted name, and their stubs. `tops` are the packages that others import."""

    modules: dict[str, ModuleFile]
    stubs: dict[str, str]
    tops: frozenset[str]


def module_index(names: Iterable[str]) -> ModuleIndex:
    """The modules that a tree's file names make."""
    listed = sorted(names)
    packages = {
        name.removesuffix("__init__.py") for name in listed if f"/{name}".endswith("/__init__.py")
    }
    roots = set() if packages else {""}
    for package in packages:
        # The directory above the outermost package around it.
        above = package
        while above in packages and above:
            above = above.rstrip("/").rpartition("/")[0]
            above = f"{above}/" if above else ""
        roots.add(above)
    kept = [root for root in roots if root in _SOURCE_ROOTS or root.endswith(_DATA_ROOTS)] or [""]
    modules: dict[str, ModuleFile] = {}
    stubs: dict[str, str] = {}
    for root in sorted(kept, key=len, reverse=True):
        for name in listed:
            if name.startswith(root):
                _add(modules, stubs, name, name.removeprefix(root))
    tops = {
        package.removeprefix(root).split("/")[0]
        for root in kept
        for package in packages
        if package.startswith(root)
    }
    if not packages:
        tops = {name.partition(".")[0] for name in modules}
    single = {name for name in modules if "." not in name and modules[name].path is not None}
    return ModuleIndex(modules=modules, stubs=stubs, tops=frozenset(tops | single))


def _add(modules: dict[str, ModuleFile], stubs: dict[str, str], path: str, relative: str) -> None:
    stem, dot, suffix = relative.rpartition("/")[2].partition(".")
    parts = [*relative.split("/")[:-1], stem]
    if not dot or not all(part.isidentifier() for part in parts):
        return
    is_package = stem == "__init__"
    if is_package:
        parts = parts[:-1]
    name = ".".join(parts)
    if not name:
        return
    if suffix == "py":
        modules[name] = ModuleFile(name=name, path=path, is_package=is_package)
    elif suffix == "pyi":
        stubs[name] = path
        return
    elif f".{suffix}".endswith(_EXTENSIONS):
        compiled = ModuleFile(name=name, path=None, is_package=is_package, compiled=path)
        modules.setdefault(name, compiled)
    for length in range(1, len(parts)):
        above = ".".join(parts[:length])
        modules.setdefault(above, ModuleFile(name=above, path=None, is_package=True))
