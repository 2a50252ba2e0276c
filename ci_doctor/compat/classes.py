# SPDX-License-Identifier: Apache-2.0
"""Pure. Classes: those above them, their names and those of their instances, and decorators."""

import ast
import builtins
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from ci_doctor.compat.conditions import Conditions
from ci_doctor.compat.scopes import Binding, FunctionNode, NameScope
from ci_doctor.compat.world import (
    UNKNOWN,
    AbsentRef,
    Asks,
    ClassRef,
    FunctionRef,
    InstanceRef,
    OutsideRef,
    Ref,
    SuperRef,
    UnknownRef,
    joined,
)

# They add no name that a caller could miss or pass.
_TRANSPARENT: Final = frozenset(
    {
        "abc.ABC",
        "builtins.object",
        "typing.Generic",
        "typing.Protocol",
        "typing_extensions.Generic",
        "typing_extensions.Protocol",
    }
)
_PLAIN_METACLASSES: Final = frozenset({"ABCMeta", "type"})


class OpaqueBase(Struct, frozen=True):
    """A class above that nobody can read: its name, and whether it is a metaclass."""

    name: str
    is_metaclass: bool = False


Ancestor = ClassRef | OpaqueBase


class Bases:
    """Linearises the bases of classes."""

    def __init__(self, evaluation: Asks) -> None:
        self._evaluation = evaluation
        self._orders: dict[ClassRef, tuple[Ancestor, ...]] = {}

    def order(self, cls: ClassRef) -> tuple[Ancestor, ...]:
        """The class and those above it; `object` and classes like it are left out."""
        if cls not in self._orders:
            self._orders[cls] = (cls, OpaqueBase("a circle of bases"))
            self._orders[cls] = self._linear(cls)
        return self._orders[cls]

    def _linear(self, cls: ClassRef) -> tuple[Ancestor, ...]:
        node = cls.scope.node
        parent = cls.scope.parent
        if not isinstance(node, ast.ClassDef) or parent is None:
            return (cls, OpaqueBase("no class"))
        direct = [ancestor for base in node.bases for ancestor in self._base(base, parent)]
        for keyword in node.keywords:
            name = ast.unparse(keyword.value).rpartition(".")[2]
            if keyword.arg == "metaclass" and name not in _PLAIN_METACLASSES:
                direct.append(OpaqueBase(name, is_metaclass=True))
        orders: list[Sequence[Ancestor]] = [
            self.order(each) if isinstance(each, ClassRef) else (each,) for each in direct
        ]
        merged = _merged([*orders, direct])
        return (cls, *merged) if merged is not None else (cls, OpaqueBase("bases without an order"))

    def _base(self, base: ast.expr, parent: NameScope) -> list[Ancestor]:
        ref = self._evaluation.value(base, parent)
        if isinstance(ref, ClassRef):
            return [ref]
        if isinstance(base, ast.Subscript):
            return self._base(base.value, parent)
        if isinstance(ref, OutsideRef):
            return [] if ref.path in _TRANSPARENT else [OpaqueBase(ref.path)]
        return [OpaqueBase(ast.unparse(base))]


def _merged(orders: list[Sequence[Ancestor]]) -> tuple[Ancestor, ...] | None:
    """C3: the first head that stands in no tail, again and again. None if there is none."""
    left = [list(order) for order in orders if order]
    result: list[Ancestor] = []
    while left:
        head = next(
            (order[0] for order in left if not any(order[0] in other[1:] for other in left)), None
        )
        if head is None:
            return None
        result.append(head)
        left = [[each for each in order if each != head] for order in left]
        left = [order for order in left if order]
    return tuple(result)


# They keep the parameters of a function. The last word suffices: nobody gives one of these names to
# a decorator that changes parameters.
_KEEPING: Final = frozenset(
    {
        "abstractmethod",
        "override",
        "final",
        "lru_cache",
        "cache",
        "wraps",
        "no_type_check",
        "inference_mode",
        "no_grad",
        "enable_grad",
        "deprecated",
        "contextmanager",
        "asynccontextmanager",
        "staticmethod",
        "classmethod",
        "coroutine",
        "set_module",
        "runtime_checkable",
        "total_ordering",
        "dataclass_transform",
        "unique",
        "ignore",
        "unused",
    }
)
_PROPERTIES: Final = frozenset(
    {"property", "cached_property", "abstractproperty", "setter", "deleter", "getter"}
)
MANAGERS: Final = frozenset({"contextmanager", "asynccontextmanager"})


class Shape(StrEnum):
    """What stands in a class or module under a function's name."""

    PLAIN = "plain"
    STATIC = "static"
    CLASS = "class"
    PROPERTY = "property"
    UNKNOWN = "unknown"


def words(node: FunctionNode | ast.ClassDef) -> list[str]:
    """The last word of each decorator: `lru_cache` of `@functools.lru_cache(maxsize=1)`."""
    return [_word(each) for each in node.decorator_list]


def _word(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2]


def is_overload(node: FunctionNode) -> bool:
    """Whether the definition is for type checkers alone."""
    return "overload" in words(node)


def shape(node: FunctionNode, scope: NameScope, evaluation: Asks) -> Shape:
    """What the decorators make of a function that is defined in `scope`."""
    kind = Shape.PLAIN
    for decorator in node.decorator_list:
        word = _word(decorator)
        if word in _PROPERTIES:
            return Shape.PROPERTY
        if word == "staticmethod":
            kind = Shape.STATIC
        elif word == "classmethod":
            kind = Shape.CLASS
        elif word not in _KEEPING and not keeps_parameters(decorator, scope, evaluation):
            return Shape.UNKNOWN
    implicit = {
        "__new__": Shape.STATIC,
        "__init_subclass__": Shape.CLASS,
        "__class_getitem__": Shape.CLASS,
    }
    return implicit.get(node.name, kind) if scope.is_class else kind


def keeps_parameters(decorator: ast.expr, scope: NameScope, evaluation: Asks) -> bool:
    """Whether a decorator of the given packages calls its function with what it was given.

    It does if it returns the function itself, or an inner function that takes and hands on
    `*args, **kwargs`.
    """
    ref = evaluation.value(decorator.func if isinstance(decorator, ast.Call) else decorator, scope)
    if isinstance(ref, OutsideRef) or not isinstance(ref, FunctionRef):
        return False
    if isinstance(decorator, ast.Call):
        return False
    return _returns_same(ref.scope)


def makes_dataclass(decorator: ast.expr, scope: NameScope, evaluation: Asks) -> bool:
    """Whether the decorator promises to work like `dataclass` (PEP 681): a class keeps its names."""
    ref = evaluation.value(decorator.func if isinstance(decorator, ast.Call) else decorator, scope)
    node = ref.scope.node if isinstance(ref, FunctionRef) else None
    return isinstance(node, FunctionNode) and "dataclass_transform" in words(node)


def _returns_same(scope: NameScope) -> bool:
    node = scope.node
    if not isinstance(node, ast.FunctionDef) or not node.args.args or not scope.returns:
        return False
    parameter = node.args.args[0].arg
    names = [value.id if isinstance(value, ast.Name) else "" for value, _ in scope.returns]
    return all(name == parameter or _hands_on(scope, name, parameter) for name in names)


def _hands_on(scope: NameScope, name: str, parameter: str) -> bool:
    """Whether the inner function `name` calls `parameter(*args, **kwargs)` and nothing else of it."""
    inner = next((each for each in scope.children.values() if each.name == name), None)
    node = None if inner is None else inner.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    if plain or arguments.vararg is None or arguments.kwarg is None:
        return False
    expected = f"{parameter}(*{arguments.vararg.arg}, **{arguments.kwarg.arg})"
    calls = [
        ast.unparse(each)
        for each in ast.walk(node)
        if isinstance(each, ast.Call) and ast.unparse(each.func) == parameter
    ]
    return bool(calls) and all(call == expected for call in calls)


_ENUMS: Final = frozenset(
    {"enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag"}
)
_PLAIN_CLASS_DECORATORS: Final = frozenset(
    {"dataclass", "final", "runtime_checkable", "total_ordering", "unique", "deprecated"}
)
_ATTRIBUTE_HOOKS: Final = ("__getattr__", "__getattribute__")


class ClassMembers:
    """Looks names up in classes and instances."""

    def __init__(self, evaluation: Asks, conditions: Conditions) -> None:
        self._evaluation = evaluation
        self._conditions = conditions
        self.bases = Bases(evaluation)

    def instance(self, cls: ClassRef) -> Ref:
        """What a call of the class gives."""
        for ancestor in self.bases.order(cls):
            if isinstance(ancestor, OpaqueBase) and ancestor.is_metaclass:
                return UNKNOWN
            if isinstance(ancestor, ClassRef) and "__new__" in ancestor.scope.bindings:
                return InstanceRef(cls, is_exact=False)
        return UNKNOWN if self.may_be_replaced(cls) else InstanceRef(cls)

    def may_be_replaced(self, cls: ClassRef) -> bool:
        """Whether a decorator may have put something else in the place of the class."""
        node = cls.scope.node
        parent = cls.scope.parent
        if not isinstance(node, ast.ClassDef) or parent is None:
            return False
        return not all(
            word in _PLAIN_CLASS_DECORATORS or makes_dataclass(decorator, parent, self._evaluation)
            for decorator, word in zip(node.decorator_list, words(node), strict=True)
        )

    def defined(self, binding: Binding, scope: NameScope) -> Ref:
        """What a `class` or a `def` binds, or a reason why its decorators make a function unknown."""
        node = binding.node
        if not isinstance(node, FunctionNode):
            return ClassRef(scope.children[id(node)])
        if is_overload(node) or shape(node, scope, self._evaluation) is Shape.UNKNOWN:
            return UNKNOWN
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
                if not _builtin_without(ancestor.name, name):
                    return UNKNOWN, None
                continue
            ref = self._own(ancestor, name)
            if ref is not None:
                return vague or ref, ancestor
            if ancestor.scope.is_dynamic:
                vague = vague or UNKNOWN
        first = next((each for each in order if isinstance(each, ClassRef)), None)
        if first is None:
            return vague or AbsentRef("", name), None
        return vague or AbsentRef(first.name, name, scope=first.scope), None

    def _own(self, cls: ClassRef, name: str) -> Ref | None:
        nodes = [each.node for each in cls.scope.bindings.get(name, ())]
        if not nodes:
            return None
        if all(isinstance(node, FunctionNode) and is_overload(node) for node in nodes):
            return UNKNOWN
        return self._evaluation.bound(name, cls.scope)

    def attribute(self, ref: ClassRef | InstanceRef | SuperRef, name: str) -> Ref:
        """What an attribute of a class, of an instance or of `super()` stands for."""
        if isinstance(ref, ClassRef):
            return self._class_attribute(ref, name)
        if isinstance(ref, InstanceRef):
            return self._instance_attribute(ref, name)
        return self._super_attribute(ref, name)

    def _class_attribute(self, cls: ClassRef, name: str) -> Ref:
        """What `Class.name` stands for."""
        if name == "__init__":
            return UNKNOWN
        order = self.bases.order(cls)
        if any(isinstance(each, OpaqueBase) and each.is_metaclass for each in order):
            return UNKNOWN
        ref, owner = self.lookup(order, name)
        if isinstance(ref, AbsentRef):
            is_own = hasattr(type, name) or hasattr(object, name)
            return UNKNOWN if is_own else self._undeclared(ref, order)
        if isinstance(ref, FunctionRef) and owner is not None:
            return self._bound(ref, owner, on_class=True)
        if any(isinstance(each, OpaqueBase) and each.name in _ENUMS for each in order):
            return InstanceRef(cls)
        return UNKNOWN if self._is_descriptor(ref) else ref

    def _undeclared(self, ref: AbsentRef, order: Sequence[Ancestor]) -> Ref:
        """`ref`, unless a decorator or a field of a class above makes the name."""
        classes = [each for each in order if isinstance(each, ClassRef)]
        # A dataclass keeps fields without a default from its class; an instance has them.
        is_made = any(
            self.may_be_replaced(each) or ref.name in each.scope.attributes for each in classes
        )
        return UNKNOWN if is_made else ref

    def _instance_attribute(self, instance: InstanceRef, name: str) -> Ref:
        """What `instance.name` stands for."""
        order = self.bases.order(instance.cls)
        ref, owner = self.lookup(order, name)
        assigned = [
            self._evaluation.binding(binding, scope)
            for each in order
            if isinstance(each, ClassRef)
            for scope, binding in each.scope.attributes.get(name, ())
            if self._conditions.runs(binding.guards, scope)
        ]
        own = joined(assigned) if assigned else None
        if own is not None:
            # An annotation in the body of the class says more than a value that nobody knows.
            declared = isinstance(own, UnknownRef) and isinstance(ref, InstanceRef)
            return ref if declared else own
        if isinstance(ref, FunctionRef) and owner is not None:
            return self._bound(ref, owner, on_class=False)
        if isinstance(ref, AbsentRef):
            return self._absent_of_instance(ref, order)
        return UNKNOWN if self._is_descriptor(ref) else ref

    def _is_descriptor(self, ref: Ref) -> bool:
        """Whether an attribute of a class gives something else than itself (`__get__`)."""
        if not isinstance(ref, InstanceRef):
            return False
        return not isinstance(self.member(ref.cls, "__get__"), AbsentRef)

    def _absent_of_instance(self, ref: AbsentRef, order: Sequence[Ancestor]) -> Ref:
        if hasattr(object, ref.name):
            return UNKNOWN
        for hook in _ATTRIBUTE_HOOKS:
            # One under TYPE_CHECKING says too that names are made at run time (pluggy's HookRelay).
            if any(isinstance(each, ClassRef) and hook in each.scope.bindings for each in order):
                return UNKNOWN
            if not isinstance(self.lookup(order, hook)[0], AbsentRef):
                return UNKNOWN
        return self._undeclared(ref, order)

    def _super_attribute(self, ref: SuperRef, name: str) -> Ref:
        """What `super().name` stands for in a method of the class."""
        order = self.bases.order(ref.cls)[1:]
        if not order:
            return UNKNOWN
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
        match shape(node, owner.scope, self._evaluation):
            case Shape.STATIC:
                return FunctionRef(ref.scope, owner=owner.scope)
            case Shape.CLASS:
                return FunctionRef(ref.scope, skip=1, owner=owner.scope)
            case Shape.PROPERTY:
                return UNKNOWN if on_class else self._property(node, ref)
            case Shape.UNKNOWN:
                return UNKNOWN
            case Shape.PLAIN:
                return FunctionRef(ref.scope, skip=0 if on_class else 1, owner=owner.scope)

    def _property(self, node: FunctionNode, ref: FunctionRef) -> Ref:
        if node.returns is not None:
            return self._evaluation.annotation(node.returns, ref.scope.parent or ref.scope)
        values = [value for value, _ in ref.scope.returns if value is not None]
        return self._evaluation.value(values[0], ref.scope) if len(values) == 1 else UNKNOWN

    def first_parameter(self, binding: Binding, scope: NameScope) -> Ref | None:
        """`self` or `cls`, if the parameter is the first one of a method; else None."""
        cls = scope.parent
        node = scope.node
        if cls is None or not cls.is_class or not isinstance(node, FunctionNode):
            return None
        arguments = [*node.args.posonlyargs, *node.args.args]
        if not arguments or scope.bindings.get(arguments[0].arg, [None])[0] is not binding:
            return None
        given = set(words(node))
        if "staticmethod" in given:
            return None
        if self.is_class_level(scope):
            return ClassRef(cls)
        return InstanceRef(ClassRef(cls), is_exact=False)

    def is_class_level(self, function: NameScope) -> bool:
        """Whether the first parameter of a method is the class."""
        node = function.node
        if not isinstance(node, FunctionNode):
            return False
        return "classmethod" in words(node) or node.name in {
            "__new__",
            "__init_subclass__",
        }


def _builtin_without(path: str, name: str) -> bool:
    """Whether a class of Python's own surely lacks the name."""
    if path in _ENUMS:
        import enum

        return not hasattr(enum.Enum, name) and name not in {"name", "value", "_value_"}
    top, _, word = path.partition(".")
    cls = getattr(builtins, word, None) if top == "builtins" else None
    return isinstance(cls, type) and not hasattr(cls, name)
