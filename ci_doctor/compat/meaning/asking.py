# SPDX-License-Identifier: Apache-2.0
"""Pure. What the parts of an evaluation ask each other."""

import ast
from typing import Protocol

from ci_doctor.compat.meaning.refs import ClassRef, Ref
from ci_doctor.compat.meaning.world import World
from ci_doctor.compat.reading.guard import Guards
from ci_doctor.compat.reading.name_scope import Binding, NameScope


class Asks(Protocol):
    """The evaluation as its parts see it."""

    world: World

    def value(self, node: ast.expr, scope: NameScope) -> Ref:
        """What an expression stands for in a scope."""
        ...

    def lookup(self, name: str, scope: NameScope, *, typing: bool = False) -> Ref:
        """What a name stands for in a scope."""
        ...

    def bound(self, name: str, scope: NameScope, *, typing: bool = False) -> Ref | None:
        """What a name stands for in this very scope; None if no line there binds it."""
        ...

    def binding(self, binding: Binding, scope: NameScope) -> Ref:
        """What one statement binds."""
        ...

    def attribute(self, ref: Ref, name: str) -> Ref:
        """What an attribute stands for."""
        ...

    def member(self, module: str, name: str) -> Ref:
        """What a name of a module stands for."""
        ...

    def imported(self, target: str) -> Ref:
        """The module of that dotted name, or why there is none."""
        ...

    def absolute(self, binding: Binding, scope: NameScope) -> str | None:
        """The absolute name of the module that a `from` names."""
        ...

    def annotation(self, node: ast.expr, scope: NameScope) -> Ref:
        """What a value with that annotation stands for."""
        ...

    def class_member(self, cls: ClassRef, name: str) -> Ref:
        """What a name of a class stands for, through its bases."""
        ...

    def runs(self, guards: Guards, scope: NameScope) -> object:
        """Whether a statement with these conditions runs."""
        ...
