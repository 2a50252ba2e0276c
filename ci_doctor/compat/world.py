# SPDX-License-Identifier: Apache-2.0
"""Reads the files of code trees, and has the words for what an expression may stand for."""

import ast
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import Any, Final, Protocol

from msgspec import Struct

from ci_doctor.compat.breaks import DefinitionFact
from ci_doctor.compat.scope_reader import read_module
from ci_doctor.compat.scopes import (
    Binding,
    ModuleFile,
    ModuleIndex,
    NameScope,
    ReadModule,
    module_index,
)


class ModuleRef(Struct, frozen=True):
    """A module of a given package."""

    name: str


class ClassRef(Struct, frozen=True):
    """A class. Two are the same if their scopes are."""

    scope: NameScope

    @property
    def name(self) -> str:
        """Its dotted name."""
        return f"{self.scope.module}.{self.scope.qualified}"


class FunctionRef(Struct, frozen=True):
    """A function.

    skip: how many leading parameters are filled already (self, cls). owner: the class it was found in.
    """

    scope: NameScope
    skip: int = 0
    owner: NameScope | None = None

    @property
    def name(self) -> str:
        """Its dotted name."""
        return f"{self.scope.module}.{self.scope.qualified}"


class InstanceRef(Struct, frozen=True):
    """An instance. `is_exact`: of this very class, and not of one below it."""

    cls: ClassRef
    is_exact: bool = True


class SuperRef(Struct, frozen=True):
    """`super()` in a method of `cls`. `is_class`: in a classmethod."""

    cls: ClassRef
    is_class: bool = False


class ConstantRef(Struct, frozen=True, eq=False):
    """A value that the source states: a number, a string, a version."""

    value: Any


class OutsideRef(Struct, frozen=True):
    """Something of a package that was not given, by its dotted name."""

    path: str


class AwaitableRef(Struct, frozen=True):
    """What a coroutine function returns."""

    result: "Ref"


class UnionRef(Struct, frozen=True):
    """One of several things, each of them known."""

    options: "tuple[Ref, ...]"


class AbsentRef(Struct, frozen=True):
    """A name that is surely not there. `place` is the module or the class without it."""

    place: str
    name: str
    is_module: bool = False
    scope: NameScope | None = None

    @property
    def sentence(self) -> str:
        """What is missing, without a full stop."""
        if self.is_module:
            return f"there is no module {self.name}"
        if self.scope is not None:
            return f"class {self.place} has no attribute `{self.name}`"
        return f"module {self.place} has no name `{self.name}`"


class UnknownRef(Struct, frozen=True):
    """Nobody knows. `is_there`: the name itself exists."""

    is_there: bool = False


UNKNOWN: Final = UnknownRef()
THERE: Final = UnknownRef(is_there=True)


class TableRef(UnknownRef, frozen=True, eq=False):
    """A list, a set or a table that the source states. Code may change it, so only its content is asked for."""

    value: Any = None


class UndecidedError(Exception):
    """The source does not state the value."""


Ref = (
    ModuleRef
    | ClassRef
    | FunctionRef
    | InstanceRef
    | SuperRef
    | ConstantRef
    | OutsideRef
    | AwaitableRef
    | UnionRef
    | AbsentRef
    | UnknownRef
)


def joined(refs: list[Ref]) -> Ref:
    """What a name with all these values stands for.

    None beside another value is left out: a name is often None until it has its value.
    """
    kept: list[Ref] = []
    for ref in refs:
        for option in ref.options if isinstance(ref, UnionRef) else (ref,):
            if option not in kept:
                kept.append(option)
    values = [ref for ref in kept if not (isinstance(ref, ConstantRef) and ref.value is None)]
    if len(values) < 2:
        return (values or kept or [UNKNOWN])[0]
    if any(isinstance(ref, UnknownRef | OutsideRef | AbsentRef) for ref in values):
        return UNKNOWN
    return UnionRef(tuple(values))


class Life(IntEnum):
    """The certain ones last: a statement under several conditions has the least of them."""

    DEAD = 0
    TYPING = 1  # under TYPE_CHECKING: never at run time
    GUARDED = 2  # a condition about versions or names that is not decided, or a fallback
    SOMETIMES = 3  # a condition about anything else
    ALWAYS = 4


class Caught(IntEnum):
    """Whether an exception at a place ends in a handler around it."""

    NOT = 0
    BROADLY = 1  # `except Exception`
    BY_NAME = 2


# Files that say what a build makes.
_BUILD_FILES: Final = ("setup.py", "pyproject.toml", "CMakeLists.txt", ".gitignore", "MANIFEST.in")
_QUOTED: Final = re.compile(r"""["'](\w+)["']""")
_WORD: Final = re.compile(r"\w+")


# A generated table of that size holds no call, and takes seconds to parse.
LARGEST_SOURCE = 4 * 2**20


class CodeTree(Struct, frozen=True, kw_only=True, eq=False):
    """Files by their names below the tree, with `/` between parts.

    label: how a person calls it. read: the bytes of a name; raises OSError. distribution and
    version: from its metadata, if it has any. is_built: no build adds modules to it.
    """

    label: str
    names: frozenset[str]
    read: Callable[[str], bytes]
    distribution: str | None = None
    version: str | None = None
    is_built: bool = True


class Side(Struct, frozen=True, kw_only=True, eq=False):
    """A tree with its modules. `is_caller`: its calls are judged, not its definitions."""

    tree: CodeTree
    index: ModuleIndex
    is_caller: bool


def side_of(tree: CodeTree, *, is_caller: bool = False) -> Side:
    """The modules of a tree."""
    return Side(tree=tree, index=module_index(tree.names), is_caller=is_caller)


class World:
    """The caller and what it calls. A module is looked for in the caller first.

    module: by name the module, parsed; None if it has no Python source that can be read. stub: by
    name the types of a module (PEP 484), parsed; None without a stub that can be read.
    """

    def __init__(self, caller: Side, callees: Sequence[Side], python: tuple[int, int]) -> None:
        self.caller = caller
        self.callees = tuple(callees)
        self.python = python
        self.unread: dict[str, str] = {}
        # As long as the world lives: a matrix has hundreds of megabytes of each pair.
        self.module: Callable[[str], ReadModule | None] = cache(self._module)
        self.stub: Callable[[str], ReadModule | None] = cache(self._stub)
        self._compiled: Callable[[str], bytes] = cache(self._binary)
        self._exports: Callable[[str], frozenset[str] | None] = cache(self._exported)
        self._build_words: Callable[[Side], frozenset[str]] = cache(_named_by_build)

    def side(self, module: str) -> Side | None:
        """The package that has the module's top name, if it was given."""
        top = module.partition(".")[0]
        for side in (*self.callees, self.caller):
            if top in side.index.tops:
                return side
        return None

    def is_callee(self, module: str) -> bool:
        """Whether the module belongs to a package whose definitions count."""
        side = self.side(module)
        return side is not None and not side.is_caller

    def file(self, module: str) -> ModuleFile | None:
        """The module's file, if the package has such a module."""
        side = self.side(module)
        return None if side is None else side.index.modules.get(module)

    def _stub(self, name: str) -> ReadModule | None:
        side = self.side(name)
        path = None if side is None else side.index.stubs.get(name)
        source = self._source(side, path)
        if source is None or path is None:
            return None
        return self.parse(name, path, source, is_package=path.endswith("__init__.pyi"))

    def is_in_compiled(self, module: str, name: str) -> bool:
        """Whether the compiled module holds the name as text; names of its attributes are text there."""
        return name.encode() in self._compiled(module)

    def _binary(self, module: str) -> bytes:
        side, file = self.side(module), self.file(module)
        if side is not None and file is not None and file.compiled is not None:
            with contextlib.suppress(OSError):
                return side.tree.read(file.compiled)
        return b""

    def may_export(self, module: str, name: str) -> bool:
        """Whether a star import of the module may bring the name.

        Its text decides that before it is parsed: a package of hundreds of lazy modules has a
        star import of each.
        """
        words = self._exports(module)
        return words is None or name in words

    def _exported(self, module: str) -> frozenset[str] | None:
        file = self.file(module)
        # The words that a star import of a module of this text may bring; None if that may be any.
        text = self._source(self.side(module), None if file is None else file.path)
        if text is None or b"import *" in text:
            return None
        pattern = _QUOTED if b"__all__" in text and b"__all__ +" not in text else _WORD
        return frozenset(pattern.findall(text.decode("utf-8", "replace")))

    def may_be_built(self, name: str) -> bool:
        """Whether a build might make a module of that name, which the tree does not have."""
        side = self.side(name)
        if side is None or side.tree.is_built:
            return False
        last = name.rpartition(".")[2]
        if last.startswith("_C") or last.endswith(("_pb2", "_pb2_grpc", "_version", "version")):
            return True
        return last in self._build_words(side)

    def versions(self) -> dict[str, str]:
        """The known versions of the callees, by distribution and by top package."""
        known: dict[str, str] = {}
        for side in self.callees:
            if side.tree.version is None:
                continue
            for top in side.index.tops:
                known[top] = side.tree.version
            if side.tree.distribution is not None:
                known[side.tree.distribution] = side.tree.version
        return known

    def caller_files(self) -> Iterator[tuple[str, bytes]]:
        """The Python files of the caller with their content, by path."""
        for path in sorted(self.caller.tree.names):
            source = self._source(self.caller, path) if path.endswith(".py") else None
            if source is not None:
                yield path, source

    def class_line(self, scope: NameScope) -> DefinitionFact | None:
        """Where a class is defined."""
        line = getattr(scope.node, "lineno", 1)
        return self.definition(scope.module, line, f"class {scope.qualified}")

    def definition(self, module: str, line: int, text: str) -> DefinitionFact | None:
        """A line of the module; None if it has no source."""
        read = self.module(module)
        return None if read is None else DefinitionFact(file=read.path, line=line, text=text)

    def _source(self, side: Side | None, path: str | None) -> bytes | None:
        """The content of a file; None, and a line in `unread`, if it cannot be read."""
        if side is None or path is None:
            return None
        try:
            return side.tree.read(path)
        except OSError as error:
            self.unread[path] = str(error)
            return None

    def _module(self, name: str) -> ReadModule | None:
        file = self.file(name)
        if file is None or file.path is None:
            return None
        source = self._source(self.side(name), file.path)
        if source is None:
            return None
        return self.parse(name, file.path, source, is_package=file.is_package)

    def parse(self, name: str, path: str, source: bytes, *, is_package: bool) -> ReadModule | None:
        """A module of this source; None, and a line in `unread`, if no Python could run it."""
        if len(source) > LARGEST_SOURCE:
            self.unread[path] = "larger than 4 MiB"
            return None
        try:
            return read_module(name, path, source, is_package=is_package)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self.unread[path] = f"no Python: {error}"
            return None


def _named_by_build(side: Side) -> frozenset[str]:
    """The words in the files that say what a build makes."""
    texts = [side.tree.read(name) for name in _BUILD_FILES if name in side.tree.names]
    return frozenset(_WORD.findall(b" ".join(texts).decode("utf-8", "replace")))


# The values of names that no statement binds: of a parameter, of a comprehension.
Environment = Mapping[str, Any]
NOTHING: Final[Environment] = {}


class Asks(Protocol):
    """The evaluation as its parts see it: each of them needs the others' answers."""

    world: World

    def value(self, node: ast.expr, scope: NameScope, names: Environment = NOTHING) -> Ref:
        """What an expression stands for in a scope."""

    def stated(self, node: ast.expr, scope: NameScope, names: Environment = NOTHING) -> Any:
        """The value of an expression. Raises UndecidedError if the source does not state it."""

    def contains(
        self, item: ast.expr, table: ast.expr, scope: NameScope, names: Environment = NOTHING
    ) -> bool | None:
        """`item in table`; None if the source does not decide it."""

    def decide(self, test: ast.expr, scope: NameScope, names: Environment = NOTHING) -> bool | None:
        """Whether `test` is true in `scope`; None if the source does not decide it."""

    def bound(self, name: str, scope: NameScope, *, typing: bool = False) -> Ref | None:
        """What a name stands for in this very scope; None if no line there binds it."""

    def binding(self, binding: Binding, scope: NameScope) -> Ref:
        """What one statement binds."""

    def annotation(self, node: ast.expr, scope: NameScope) -> Ref:
        """What a value with that annotation stands for."""

    def imported(self, target: str, alias: str) -> Ref:
        """What `import target` binds: the module with an alias, else its top package."""

    def absolute(self, binding: Binding, scope: NameScope) -> str | None:
        """The absolute name of the module that a `from` names."""
