# SPDX-License-Identifier: Apache-2.0
"""Pure. The classes above a class, in the order in which Python looks names up (C3)."""

import ast
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.compat.meaning.asking import Asks
from ci_doctor.compat.meaning.refs import ClassRef, OutsideRef, UnknownRef

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

    def __init__(self, asks: Asks) -> None:
        self._asks = asks
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
        direct: list[Ancestor] = []
        for base in node.bases:
            direct += self._base(base, cls)
        for keyword in node.keywords:
            name = ast.unparse(keyword.value).rpartition(".")[2]
            if keyword.arg == "metaclass" and name not in _PLAIN_METACLASSES:
                direct.append(OpaqueBase(name, is_metaclass=True))
        orders: list[Sequence[Ancestor]] = [
            self.order(each) if isinstance(each, ClassRef) else (each,) for each in direct
        ]
        merged = _merged([*orders, direct])
        return (cls, *merged) if merged is not None else (cls, OpaqueBase("bases without an order"))

    def _base(self, base: ast.expr, cls: ClassRef) -> list[Ancestor]:
        parent = cls.scope.parent
        assert parent is not None  # noqa: S101 - a class stands in a scope
        ref = self._asks.value(base, parent)
        if isinstance(ref, ClassRef):
            return [ref]
        if isinstance(base, ast.Subscript):
            return self._base(base.value, cls)
        if isinstance(ref, OutsideRef):
            return [] if ref.path in _TRANSPARENT else [OpaqueBase(ref.path)]
        detail = ref.detail if isinstance(ref, UnknownRef) else ""
        return [OpaqueBase(detail or ast.unparse(base))]


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
