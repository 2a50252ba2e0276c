# SPDX-License-Identifier: Apache-2.0
"""Pure. What an expression stands for: a module, a class, a function, an instance, or nobody knows."""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from ci_doctor.compat.reading.name_scope import NameScope


class Ignorance(StrEnum):
    """Why nobody knows what an expression stands for."""

    OUTSIDE = "a package that was not given"
    NO_SOURCE = "a module without Python source"
    LAZY = "a module that makes its names at run time"
    DECORATED = "a decorator whose effect is not known"
    BASES = "a class with a base that is not known"
    DYNAMIC = "a class or a module that code changes at run time"
    EXPRESSION = "a value that the source does not decide"
    SEVERAL = "a name with several possible values"
    NARROWED = "a value whose type a test looks at"
    CONDITION = "a condition that is not decided"
    PATCHED = "a name that code assigns from elsewhere"
    BUILD = "a module that a build may make"
    COMMON = "an override of a method whose name is everywhere in the callee"
    GENERATED = "a constructor that a library makes"


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


class UnknownRef(Struct, frozen=True):
    """Nobody knows. `detail` is a name: of a decorator, a base, a package. `is_there`: the name itself exists."""

    why: Ignorance
    detail: str = ""
    is_there: bool = False


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
        options = ref.options if isinstance(ref, UnionRef) else (ref,)
        for option in options:
            if option not in kept:
                kept.append(option)
    values = [ref for ref in kept if not (isinstance(ref, ConstantRef) and ref.value is None)]
    if not values:
        return kept[0] if kept else UnknownRef(Ignorance.EXPRESSION)
    if len(values) == 1:
        return values[0]
    for ref in values:
        if isinstance(ref, UnknownRef | OutsideRef | AbsentRef):
            return UnknownRef(Ignorance.SEVERAL)
    return UnionRef(tuple(values))
