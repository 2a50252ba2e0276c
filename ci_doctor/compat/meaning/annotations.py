# SPDX-License-Identifier: Apache-2.0
"""Pure. What a value with an annotation is: an instance of the one class that it names."""

import ast
from typing import Final

from ci_doctor.compat.meaning.asking import Asks
from ci_doctor.compat.meaning.refs import (
    ClassRef,
    Ignorance,
    InstanceRef,
    OutsideRef,
    Ref,
    UnknownRef,
)
from ci_doctor.compat.reading.name_scope import NameScope

# Forms that stand for what is in their brackets.
_THROUGH: Final = frozenset(
    {"Optional", "Annotated", "Final", "ClassVar", "Required", "NotRequired"}
)
_UNKNOWN: Final = UnknownRef(Ignorance.EXPRESSION)


class Annotations:
    """Reads annotations. A class below the named one is possible, so no instance is exact."""

    def __init__(self, asks: Asks) -> None:
        self._asks = asks

    def instance(self, node: ast.expr, scope: NameScope) -> Ref:
        """What a value with that annotation stands for."""
        match node:
            case ast.Constant(value=str() as text):
                return self._text(text, scope)
            case ast.BinOp(op=ast.BitOr()):
                return self._either([node.left, node.right], scope)
            case ast.Subscript():
                return self._subscript(node, scope)
            case ast.Name() | ast.Attribute():
                return self._named(node, scope)
            case _:
                return _UNKNOWN

    def _text(self, text: str, scope: NameScope) -> Ref:
        try:
            parsed = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            return _UNKNOWN
        # No other line has this node, so what is kept for it must not outlive it.
        return self.instance(parsed, scope)

    def _either(self, options: list[ast.expr], scope: NameScope) -> Ref:
        real = [each for each in options if not _is_none(each)]
        return self.instance(real[0], scope) if len(real) == 1 else _UNKNOWN

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> Ref:
        form = ast.unparse(node.value).rpartition(".")[2]
        inside = node.slice
        parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
        if form == "Union":
            return self._either(list(parts), scope)
        if form in _THROUGH and parts:
            return self.instance(parts[0], scope)
        if form in {"type", "Type"}:
            return _UNKNOWN
        return self._named(node.value, scope)

    def _named(self, node: ast.expr, scope: NameScope) -> Ref:
        ref = self._reference(node, scope)
        if isinstance(ref, ClassRef):
            return InstanceRef(ref, is_exact=False)
        if isinstance(ref, OutsideRef):
            return UnknownRef(Ignorance.OUTSIDE, ref.path.partition(".")[0])
        return ref if isinstance(ref, UnknownRef) else _UNKNOWN

    def _reference(self, node: ast.expr, scope: NameScope) -> Ref:
        # What is imported under TYPE_CHECKING counts here.
        if isinstance(node, ast.Name):
            return self._asks.lookup(node.id, scope, typing=True)
        if isinstance(node, ast.Attribute):
            return self._asks.attribute(self._reference(node.value, scope), node.attr)
        return _UNKNOWN


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
