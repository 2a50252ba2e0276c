# SPDX-License-Identifier: Apache-2.0
"""Pure. What names and expressions stand for, followed through imports, assignments and calls."""

import ast
import builtins
from typing import Final

from ci_doctor.compat.meaning.annotations import Annotations
from ci_doctor.compat.meaning.class_members import ClassMembers
from ci_doctor.compat.meaning.conditions import Conditions
from ci_doctor.compat.meaning.expression_values import ExpressionValues
from ci_doctor.compat.meaning.life import Caught, Life
from ci_doctor.compat.meaning.module_members import ModuleMembers
from ci_doctor.compat.meaning.refs import (
    AbsentRef,
    ClassRef,
    ConstantRef,
    Ignorance,
    InstanceRef,
    ModuleRef,
    OutsideRef,
    Ref,
    SuperRef,
    UnionRef,
    UnknownRef,
    joined,
)
from ci_doctor.compat.meaning.world import World
from ci_doctor.compat.reading.guard import Guards
from ci_doctor.compat.reading.name_scope import Binding, BindingKind, NameScope

_DEEPEST: Final = 80
_VERSION_PARTS: Final = frozenset({"major", "minor", "micro", "release", "base_version", "public"})


class Evaluation:
    """Answers what a name, an attribute or an expression stands for; each answer is kept."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.conditions = Conditions(self)
        self.classes = ClassMembers(self)
        self._modules = ModuleMembers(self)
        self._annotations = Annotations(self)
        self._expressions = ExpressionValues(self)
        self._values: dict[tuple[int, int], Ref] = {}
        self._bindings: dict[tuple[int, int], Ref] = {}
        self._depth = 0

    def value(self, node: ast.expr, scope: NameScope) -> Ref:
        """What an expression stands for in a scope."""
        key = (id(node), id(scope))
        if key not in self._values:
            # An expression that needs itself, as in a loop, is unknown while it is looked at.
            self._values[key] = UnknownRef(Ignorance.EXPRESSION)
            self._values[key] = self._deeper(node, scope)
        return self._values[key]

    def _deeper(self, node: ast.expr, scope: NameScope) -> Ref:
        if self._depth > _DEEPEST:
            return UnknownRef(Ignorance.EXPRESSION)
        self._depth += 1
        try:
            return self._expressions.value(node, scope)
        finally:
            self._depth -= 1

    def annotation(self, node: ast.expr, scope: NameScope) -> Ref:
        """What a value with that annotation stands for."""
        return self._annotations.instance(node, scope)

    def runs(self, guards: Guards, scope: NameScope) -> Life:
        """Whether a statement with these conditions runs."""
        return self.conditions.runs(guards, scope)

    def lookup(self, name: str, scope: NameScope, *, typing: bool = False) -> Ref:
        """What a name stands for: here, in the functions around, in the module, in Python itself."""
        around: NameScope | None = scope
        while around is not None:
            # The body of a class is no scope for its methods.
            if around is scope or not around.is_class:
                ref = self.bound(name, around, typing=typing)
                if ref is not None:
                    return ref
            around = around.parent
        star = self._modules.from_stars(scope.root(), name)
        if star is not None:
            return star
        if hasattr(builtins, name):
            return OutsideRef(f"builtins.{name}")
        return UnknownRef(Ignorance.EXPRESSION, name)

    def bound(self, name: str, scope: NameScope, *, typing: bool = False) -> Ref | None:
        """What a name stands for in this very scope; None if no line there binds it."""
        bindings = scope.bindings.get(name)
        if not bindings:
            return None
        if name in scope.outer or _is_outer(name, scope):
            return UnknownRef(Ignorance.SEVERAL, name)
        return self._joined_bindings(bindings, scope, typing=typing)

    def _joined_bindings(
        self, bindings: list[Binding], scope: NameScope, *, typing: bool
    ) -> Ref | None:
        in_order = scope.parent is None or scope.is_class
        refs: list[Ref] = []
        gone: Ref | None = None
        for binding in bindings:
            life = self.runs(binding.guards, scope)
            if life is Life.DEAD or (life is Life.TYPING and not typing):
                continue
            ref = self.binding(binding, scope)
            if isinstance(ref, AbsentRef):
                # A failed import binds nothing; another branch may.
                gone = ref
                continue
            if in_order and life >= Life.ALWAYS:
                refs = []
            refs.append(ref)
        if not refs:
            return gone
        return joined(refs)

    def binding(self, binding: Binding, scope: NameScope) -> Ref:
        """What one statement binds."""
        key = (id(binding), id(scope))
        if key not in self._bindings:
            self._bindings[key] = UnknownRef(Ignorance.EXPRESSION)
            self._bindings[key] = self._bind(binding, scope)
        return self._bindings[key]

    def _bind(self, binding: Binding, scope: NameScope) -> Ref:
        match binding.kind:
            case BindingKind.IMPORT | BindingKind.FROM:
                return self._imported(binding, scope)
            case BindingKind.FUNCTION | BindingKind.CLASS:
                return self._defined(binding, scope)
            case BindingKind.VALUE:
                return self._assigned(binding, scope)
            case BindingKind.PARAMETER:
                return self._parameter(binding, scope)
            case BindingKind.WITH:
                return self._expressions.entered(binding, scope)
            case BindingKind.UNKNOWN:
                return UnknownRef(Ignorance.EXPRESSION)

    def _imported(self, binding: Binding, scope: NameScope) -> Ref:
        if binding.kind is BindingKind.IMPORT:
            return self._modules.imported(binding.target, binding.name)
        return self._modules.imported_from(binding, scope)

    def _defined(self, binding: Binding, scope: NameScope) -> Ref:
        if binding.kind is BindingKind.FUNCTION:
            return self.classes.function(binding, scope)
        return ClassRef(scope.children[id(binding.node)])

    def _assigned(self, binding: Binding, scope: NameScope) -> Ref:
        ref: Ref = UnknownRef(Ignorance.EXPRESSION)
        if binding.value is not None:
            ref = self.value(binding.value, scope)
        vague = isinstance(ref, UnknownRef | OutsideRef | UnionRef)
        if isinstance(ref, ConstantRef) and ref.value is None:
            vague = True
        if vague and binding.annotation is not None:
            return self.annotation(binding.annotation, scope)
        return ref

    def _parameter(self, binding: Binding, scope: NameScope) -> Ref:
        own = self.classes.first_parameter(binding, scope)
        if own is not None:
            return own
        if binding.annotation is None:
            return UnknownRef(Ignorance.EXPRESSION)
        return self.annotation(binding.annotation, scope)

    def member(self, module: str, name: str) -> Ref:
        """What a name of a module stands for."""
        return self._modules.member(module, name)

    def imported(self, target: str) -> Ref:
        """The module of that dotted name, or why there is none."""
        return self._modules.imported(target, target)

    def absolute(self, binding: Binding, scope: NameScope) -> str | None:
        """The absolute name of the module that a `from` names."""
        return self._modules.absolute(binding, scope)

    def class_member(self, cls: ClassRef, name: str) -> Ref:
        """What a name of a class stands for, through its bases."""
        return self.classes.member(cls, name)

    def attribute(self, ref: Ref, name: str) -> Ref:
        """What an attribute stands for."""
        match ref:
            case ModuleRef() | OutsideRef():
                return self._name_of_package(ref, name)
            case ClassRef() | InstanceRef() | SuperRef():
                return self._name_of_class(ref, name)
            case ConstantRef():
                return _constant_attribute(ref, name)
            case UnionRef():
                return joined([self.attribute(each, name) for each in ref.options])
            case UnknownRef():
                return UnknownRef(ref.why, ref.detail)
            case _:
                return UnknownRef(Ignorance.EXPRESSION, name)

    def _name_of_package(self, ref: ModuleRef | OutsideRef, name: str) -> Ref:
        if isinstance(ref, ModuleRef):
            return self.member(ref.name, name)
        return self._outside(f"{ref.path}.{name}")

    def _name_of_class(self, ref: ClassRef | InstanceRef | SuperRef, name: str) -> Ref:
        if isinstance(ref, ClassRef):
            return self.classes.class_attribute(ref, name)
        if isinstance(ref, InstanceRef):
            return self.classes.instance_attribute(ref, name)
        return self.classes.super_attribute(ref, name)

    def _outside(self, path: str) -> Ref:
        if path == "sys.version_info":
            return ConstantRef((*self.world.python, 0, "final", 0))
        return OutsideRef(path)

    def caught(self, guards: Guards, error: str) -> Caught:
        """Whether an error raised under these conditions is handled."""
        return self.conditions.caught(guards, error)


def _is_outer(name: str, scope: NameScope) -> bool:
    """Whether a function below declares the name global or nonlocal: it may give it any value."""
    if scope.is_class:
        return False
    return any(name in child.outer or _is_outer(name, child) for child in scope.children.values())


def _constant_attribute(ref: ConstantRef, name: str) -> Ref:
    if isinstance(ref.value, tuple) and name in {"major", "minor"} and len(ref.value) > 1:
        return ConstantRef(ref.value[name == "minor"])
    if name in _VERSION_PARTS and hasattr(ref.value, name):
        return ConstantRef(getattr(ref.value, name))
    return UnknownRef(Ignorance.EXPRESSION, name)
