# SPDX-License-Identifier: Apache-2.0
"""Pure. What an expression may stand for: modules, functions, classes, and objects of them."""

import ast
from collections.abc import Mapping  # noqa: TC003 - msgspec reads annotations
from typing import Protocol

from msgspec import Struct

from ci_doctor.preload.audit.module_code import Bindings, Function, ModuleCode


class Scope:
    """The names of a module, a class body or one call of a function.

    `given` has the arguments of a call: expressions in the caller's scope, or values. `itself` is
    the object that a method runs on. Scopes are compared by identity.
    """

    def __init__(  # noqa: PLR0913 - all but two by name
        self,
        code: ModuleCode,
        bindings: Bindings,
        parent: "Scope | None" = None,
        *,
        given: "Mapping[str, Given] | None" = None,
        itself: "Value | None" = None,
        owner: "ClassValue | None" = None,
        is_class: bool = False,
    ) -> None:
        self.code = code
        self.bindings = bindings
        self.parent = parent
        self.given = dict(given or {})
        self.itself = itself
        self.owner = owner
        self.is_class = is_class


class Deferred(Struct, frozen=True):
    """An expression, and the scope to evaluate it in."""

    expression: ast.expr
    scope: Scope


class Typed(Struct, frozen=True):
    """A parameter of which only the annotation is known, and the scope of its names."""

    annotation: ast.expr
    scope: Scope


class ModuleValue(Struct, frozen=True):
    """A module."""

    name: str


class FunctionValue(Struct, frozen=True):
    """A function or lambda of the audited code; `itself` is the object it is bound to."""

    node: Function | ast.Lambda
    scope: Scope
    itself: "Value | None" = None
    owner: "ClassValue | None" = None

    @property
    def name(self) -> str:
        """Its name, with its class."""
        name = "lambda" if isinstance(self.node, ast.Lambda) else self.node.name
        return f"{self.owner.node.name}.{name}" if self.owner else name


class ClassValue(Struct, frozen=True):
    """A class of the audited code."""

    node: ast.ClassDef
    scope: Scope


class ExternalValue(Struct, frozen=True):
    """Something outside the audited code, by its dotted name."""

    name: str


class InstanceValue(Struct, frozen=True):
    """What calling a class gives, or calling something external."""

    kind: ClassValue | ExternalValue
    call: ast.Call | None
    scope: Scope | None


class MethodValue(Struct, frozen=True):
    """An attribute of an object that external code defines; `name` is dotted, with its class."""

    name: str
    itself: "Value"


class PartialValue(Struct, frozen=True):
    """`functools.partial(function, …)`."""

    function: "Value"


class LiteralValue(Struct, frozen=True):
    """A display of a list, tuple, set or dictionary."""

    expression: ast.expr
    scope: Scope


class TextValue(Struct, frozen=True):
    """A string."""

    text: str


class SuperValue(Struct, frozen=True):
    """`super()` in a method."""

    owner: ClassValue
    itself: "Value | None"


Value = (
    ModuleValue
    | FunctionValue
    | ClassValue
    | ExternalValue
    | InstanceValue
    | MethodValue
    | PartialValue
    | LiteralValue
    | TextValue
    | SuperValue
)
Values = tuple[Value, ...]
Given = Deferred | Typed | Values


class Answers(Protocol):
    """What can be asked of a resolver."""

    def resolve(self, expression: ast.expr, scope: Scope) -> Values:
        """What an expression stands for."""

    def attribute(self, value: Value, name: str) -> Values:
        """What an attribute stands for."""

    def call(self, value: Value, call: ast.Call | None, scope: Scope) -> Values:
        """What a call gives."""
