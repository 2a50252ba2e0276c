# SPDX-License-Identifier: Apache-2.0
"""Pure. The names of classes and their instances, through all classes above."""

import ast
import builtins
from collections.abc import Sequence
from typing import Final

from ci_doctor.compat.meaning.asking import Asks
from ci_doctor.compat.meaning.bases import Ancestor, Bases, OpaqueBase
from ci_doctor.compat.meaning.decorators import (
    Shape,
    is_overload,
    makes_dataclass,
    makes_manager,
    shape,
)
from ci_doctor.compat.meaning.decorators import words as decorator_words
from ci_doctor.compat.meaning.refs import (
    AbsentRef,
    ClassRef,
    FunctionRef,
    Ignorance,
    InstanceRef,
    Ref,
    SuperRef,
    UnknownRef,
    joined,
)
from ci_doctor.compat.reading.name_scope import Binding, FunctionNode, NameScope

_ENUMS: Final = frozenset(
    {"enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag"}
)
_PLAIN_CLASS_DECORATORS: Final = frozenset(
    {"dataclass", "final", "runtime_checkable", "total_ordering", "unique", "deprecated"}
)
_UNKNOWN: Final = UnknownRef(Ignorance.EXPRESSION)
_ATTRIBUTE_HOOKS: Final = ("__getattr__", "__getattribute__")


class ClassMembers:
    """Looks names up in classes and instances."""

    def __init__(self, asks: Asks) -> None:
        self._asks = asks
        self.bases = Bases(asks)

    def instance(self, cls: ClassRef) -> Ref:
        """What a call of the class gives."""
        for ancestor in self.bases.order(cls):
            if isinstance(ancestor, OpaqueBase) and ancestor.is_metaclass:
                return UnknownRef(Ignorance.BASES, ancestor.name)
            if isinstance(ancestor, ClassRef) and "__new__" in ancestor.scope.bindings:
                return InstanceRef(cls, is_exact=False)
        unknown = self.decorated(cls)
        return InstanceRef(cls) if unknown is None else unknown

    def decorated(self, cls: ClassRef) -> UnknownRef | None:
        """Why a decorator may have put something else in the place of the class; None if not."""
        node = cls.scope.node
        parent = cls.scope.parent
        if not isinstance(node, ast.ClassDef) or parent is None:
            return None
        for decorator, word in zip(node.decorator_list, decorator_words(node), strict=True):
            if word in _PLAIN_CLASS_DECORATORS or makes_dataclass(decorator, parent, self._asks):
                continue
            return UnknownRef(Ignorance.DECORATED, word)
        return None

    def function(self, binding: Binding, scope: NameScope) -> Ref:
        """What a `def` binds: the function, or a reason why its decorators make it unknown."""
        node = binding.node
        assert isinstance(node, FunctionNode)  # noqa: S101 - that is what the kind says
        if is_overload(node):
            return UnknownRef(Ignorance.DECORATED, "overload")
        if shape(node, scope, self._asks) is Shape.UNKNOWN:
            return UnknownRef(Ignorance.DECORATED, ", ".join(decorator_words(node)))
        return FunctionRef(scope.children[id(node)])

    def member(self, cls: ClassRef, name: str) -> Ref:
        """What the class or one above it binds the name to, as it stands there."""
        ref, _ = self.lookup(self.bases.order(cls), name)
        return ref

    def lookup(self, order: Sequence[Ancestor], name: str) -> tuple[Ref, ClassRef | None]:
        """What the first class in `order` that has the name binds it to, and that class."""
        vague: UnknownRef | None = None
        for ancestor in order:
            if isinstance(ancestor, OpaqueBase):
                known = _builtin_without(ancestor.name, name)
                if not known:
                    return UnknownRef(Ignorance.BASES, ancestor.name), None
                continue
            ref = self._own(ancestor, name)
            if ref is not None:
                return (ref if vague is None else vague), ancestor
            if ancestor.scope.is_dynamic:
                vague = vague or UnknownRef(Ignorance.DYNAMIC, ancestor.name)
        if vague is not None:
            return vague, None
        first = next((each for each in order if isinstance(each, ClassRef)), None)
        place = first.name if first is not None else ""
        scope = first.scope if first is not None else None
        return AbsentRef(place, name, scope=scope), None

    def _own(self, cls: ClassRef, name: str) -> Ref | None:
        bindings = cls.scope.bindings.get(name)
        if not bindings:
            return None
        real = [
            each
            for each in bindings
            if not (isinstance(each.node, FunctionNode) and is_overload(each.node))
        ]
        if not real:
            return UnknownRef(Ignorance.DECORATED, "overload")
        return self._asks.bound(name, cls.scope)

    def class_attribute(self, cls: ClassRef, name: str) -> Ref:
        """What `Class.name` stands for."""
        if name == "__init__":
            return _UNKNOWN
        order = self.bases.order(cls)
        if any(isinstance(each, OpaqueBase) and each.is_metaclass for each in order):
            return UnknownRef(Ignorance.BASES, "metaclass")
        ref, owner = self.lookup(order, name)
        if isinstance(ref, AbsentRef):
            return self._absent_of_class(ref, order)
        if isinstance(ref, FunctionRef) and owner is not None:
            return self._bound(ref, owner, on_class=True)
        if any(isinstance(each, OpaqueBase) and each.name in _ENUMS for each in order):
            return InstanceRef(cls)
        return UnknownRef(Ignorance.DYNAMIC, "__get__") if self._is_descriptor(ref) else ref

    def _absent_of_class(self, ref: AbsentRef, order: Sequence[Ancestor]) -> Ref:
        if hasattr(type, ref.name) or hasattr(object, ref.name):
            return _UNKNOWN
        decorated = self._any_decorated(order)
        if decorated is not None:
            return decorated
        # A dataclass keeps fields without a default from its class; an instance has them.
        return ref if not self._declares(order, ref.name) else _UNKNOWN

    def _any_decorated(self, order: Sequence[Ancestor]) -> UnknownRef | None:
        for ancestor in order:
            if isinstance(ancestor, ClassRef):
                unknown = self.decorated(ancestor)
                if unknown is not None:
                    return unknown
        return None

    def _declares(self, order: Sequence[Ancestor], name: str) -> bool:
        return any(isinstance(each, ClassRef) and name in each.scope.attributes for each in order)

    def instance_attribute(self, instance: InstanceRef, name: str) -> Ref:
        """What `instance.name` stands for."""
        order = self.bases.order(instance.cls)
        ref, owner = self.lookup(order, name)
        own = self._assigned_to_self(order, name)
        if own is not None:
            # An annotation in the body of the class says more than a value that nobody knows.
            declared = isinstance(own, UnknownRef) and isinstance(ref, InstanceRef)
            return ref if declared else own
        if isinstance(ref, FunctionRef) and owner is not None:
            return self._bound(ref, owner, on_class=False)
        if isinstance(ref, AbsentRef):
            return self._absent_of_instance(ref, order)
        return UnknownRef(Ignorance.DYNAMIC, "__get__") if self._is_descriptor(ref) else ref

    def _is_descriptor(self, ref: Ref) -> bool:
        """Whether an attribute of a class gives something else than itself (`__get__`)."""
        if not isinstance(ref, InstanceRef):
            return False
        return not isinstance(self.member(ref.cls, "__get__"), AbsentRef)

    def _assigned_to_self(self, order: Sequence[Ancestor], name: str) -> Ref | None:
        refs = []
        for ancestor in order:
            if isinstance(ancestor, ClassRef):
                for scope, binding in ancestor.scope.attributes.get(name, ()):
                    if self._asks.runs(binding.guards, scope):
                        refs.append(self._asks.binding(binding, scope))
        return joined(refs) if refs else None

    def _absent_of_instance(self, ref: AbsentRef, order: Sequence[Ancestor]) -> Ref:
        if hasattr(object, ref.name):
            return _UNKNOWN
        for hook in _ATTRIBUTE_HOOKS:
            if not isinstance(self.lookup(order, hook)[0], AbsentRef):
                return UnknownRef(Ignorance.DYNAMIC, hook)
        decorated = self._any_decorated(order)
        if decorated is not None:
            return decorated
        return ref if not self._declares(order, ref.name) else _UNKNOWN

    def super_attribute(self, ref: SuperRef, name: str) -> Ref:
        """What `super().name` stands for in a method of the class."""
        order = self.bases.order(ref.cls)[1:]
        if not order:
            return _UNKNOWN
        member, owner = self.lookup(order, name)
        if isinstance(member, FunctionRef) and owner is not None:
            return self._bound(member, owner, on_class=ref.is_class)
        if isinstance(member, AbsentRef):
            return self._absent_of_instance(member, order)
        return member

    def _bound(self, ref: FunctionRef, owner: ClassRef, *, on_class: bool) -> Ref:
        node = ref.scope.node
        if not isinstance(node, FunctionNode) or ref.scope.parent is not owner.scope:
            return ref
        match shape(node, owner.scope, self._asks):
            case Shape.STATIC:
                return FunctionRef(ref.scope, owner=owner.scope)
            case Shape.CLASS:
                return FunctionRef(ref.scope, skip=1, owner=owner.scope)
            case Shape.PROPERTY:
                return _UNKNOWN if on_class else self._property(node, ref)
            case Shape.UNKNOWN:
                return UnknownRef(Ignorance.DECORATED, ", ".join(decorator_words(node)))
            case Shape.PLAIN:
                return FunctionRef(ref.scope, skip=0 if on_class else 1, owner=owner.scope)

    def _property(self, node: FunctionNode, ref: FunctionRef) -> Ref:
        if node.returns is not None:
            return self._asks.annotation(node.returns, ref.scope.parent or ref.scope)
        values = [value for value, _ in ref.scope.returns if value is not None]
        return self._asks.value(values[0], ref.scope) if len(values) == 1 else _UNKNOWN

    def first_parameter(self, binding: Binding, scope: NameScope) -> Ref | None:
        """`self` or `cls`, if the parameter is the first one of a method; else None."""
        cls = scope.parent
        node = scope.node
        if cls is None or not cls.is_class or not isinstance(node, FunctionNode):
            return None
        arguments = [*node.args.posonlyargs, *node.args.args]
        if not arguments or scope.bindings.get(arguments[0].arg, [None])[0] is not binding:
            return None
        words = set(decorator_words(node))
        if "staticmethod" in words:
            return None
        if self.is_class_level(scope):
            return ClassRef(cls)
        return InstanceRef(ClassRef(cls), is_exact=False)

    def is_class_level(self, function: NameScope) -> bool:
        """Whether the first parameter of a method is the class."""
        node = function.node
        if not isinstance(node, FunctionNode):
            return False
        return "classmethod" in decorator_words(node) or node.name in {
            "__new__",
            "__init_subclass__",
        }

    def changes_result(self, scope: NameScope) -> bool:
        """Whether a decorator makes a call give something else than the body returns."""
        return isinstance(scope.node, FunctionNode) and makes_manager(scope.node)


def _builtin_without(path: str, name: str) -> bool:
    """Whether a class of Python's own surely lacks the name."""
    if path in _ENUMS:
        import enum

        return not hasattr(enum.Enum, name) and name not in {"name", "value", "_value_"}
    top, _, word = path.partition(".")
    cls = getattr(builtins, word, None) if top == "builtins" else None
    return isinstance(cls, type) and not hasattr(cls, name)
