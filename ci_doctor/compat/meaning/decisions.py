# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a test is true, by what is known of versions, names and signatures."""

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from ci_doctor.compat.meaning.asking import Asks
from ci_doctor.compat.meaning.folding import Folding, UndecidedError
from ci_doctor.compat.meaning.refs import (
    AbsentRef,
    ClassRef,
    ConstantRef,
    FunctionRef,
    ModuleRef,
    Ref,
)
from ci_doctor.compat.reading.name_scope import BindingKind, NameScope

_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_THINGS: Final = ClassRef | FunctionRef | ModuleRef
_DEEPEST: Final = 20


class Decisions:
    """Decides tests. None stands for a test that is not decided."""

    def __init__(self, asks: Asks) -> None:
        self._asks = asks
        self.folding = Folding(asks)
        self._depth = 0

    def decide(self, test: ast.expr, scope: NameScope) -> bool | None:
        """Whether `test` is true in `scope`."""
        if self._depth > _DEEPEST:
            return None
        self._depth += 1
        try:
            return self._decide(test, scope)
        finally:
            self._depth -= 1

    def _decide(self, test: ast.expr, scope: NameScope) -> bool | None:  # noqa: PLR0911 - a case per form
        match test:
            case ast.Constant():
                return bool(test.value)
            case ast.UnaryOp(op=ast.Not()):
                inner = self.decide(test.operand, scope)
                return None if inner is None else not inner
            case ast.BoolOp():
                return self._chain(test, scope)
            case ast.Compare():
                return self._comparisons(test, scope)
            case ast.Call():
                return self._call(test, scope)
            case ast.Name() | ast.Attribute():
                return self._name(test, scope)
            case _:
                return self._folded(test, scope)

    def _folded(self, test: ast.expr, scope: NameScope) -> bool | None:
        try:
            return bool(self.folding.value(test, scope))
        except UndecidedError:
            return None

    def _comparisons(self, test: ast.Compare, scope: NameScope) -> bool | None:
        """`a < b < c` is true if each of its comparisons is."""
        lefts = [test.left, *test.comparators[:-1]]
        states = [
            self._compare(left, op, right, scope)
            for left, op, right in zip(lefts, test.ops, test.comparators, strict=True)
        ]
        if False in states:
            return False
        return None if None in states else True

    def _chain(self, test: ast.BoolOp, scope: NameScope) -> bool | None:
        is_and = isinstance(test.op, ast.And)
        decided = [self.decide(value, scope) for value in test.values]
        # One false part makes a conjunction false, one true part a disjunction true.
        if (not is_and) in decided:
            return not is_and
        return None if None in decided else is_and

    def _compare(
        self, left: ast.expr, op: ast.cmpop, right: ast.expr, scope: NameScope
    ) -> bool | None:
        if isinstance(op, ast.In | ast.NotIn):
            held = self._in_signature(left, right, scope)
            if held is None:
                held = self._held(left, right, scope)
            return held if held is None or isinstance(op, ast.In) else not held
        if isinstance(op, ast.Is | ast.IsNot):
            same = self._is_none(left, right, scope)
            return same if same is None or isinstance(op, ast.Is) else not same
        try:
            first = self.folding.value(left, scope)
            second = self.folding.value(right, scope)
        except UndecidedError:
            return None
        return _compared(first, op, second)

    def _held(self, left: ast.expr, right: ast.expr, scope: NameScope) -> bool | None:
        try:
            return self.folding.contains(left, right, scope)
        except UndecidedError:
            return None

    def _is_none(self, left: ast.expr, right: ast.expr, scope: NameScope) -> bool | None:
        if not isinstance(right, ast.Constant) or right.value is not None:
            return None
        if not isinstance(left, ast.Name):
            return None
        ref = self._asks.value(left, scope)
        if isinstance(ref, _THINGS):
            return False
        is_constant = isinstance(ref, ConstantRef) and is_of_module(left.id, scope)
        return ref.value is None if is_constant and isinstance(ref, ConstantRef) else None

    def _in_signature(self, left: ast.expr, right: ast.expr, scope: NameScope) -> bool | None:
        """`"name" in inspect.signature(f).parameters`."""
        if not isinstance(left, ast.Constant) or not isinstance(left.value, str):
            return None
        for node in ast.walk(right):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("signature"):
                ref = self._asks.value(node.args[0], scope) if node.args else None
                return None if ref is None else self._takes(ref, left.value)
        return None

    def _takes(self, ref: Ref, name: str) -> bool | None:
        if isinstance(ref, ClassRef):
            ref = self._asks.class_member(ref, "__init__")
        if not isinstance(ref, FunctionRef):
            return None
        arguments = getattr(ref.scope.node, "args", None)
        if not isinstance(arguments, ast.arguments):
            return None
        names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        return name in {each.arg for each in names}

    def _call(self, test: ast.Call, scope: NameScope) -> bool | None:
        name = ast.unparse(test.func)
        if name == "hasattr" and len(test.args) == 2:
            return self._has(test.args, scope)
        if name == "bool" and len(test.args) == 1:
            return self.decide(test.args[0], scope)
        if test.args or test.keywords:
            return self._folded(test, scope)
        ref = self._asks.value(test.func, scope)
        if isinstance(ref, FunctionRef) and len(ref.scope.returns) == 1:
            returned, guards = ref.scope.returns[0]
            if returned is not None and not guards:
                return self.decide(returned, ref.scope)
        return self._folded(test, scope)

    def _has(self, args: Sequence[ast.expr], scope: NameScope) -> bool | None:
        name = args[1]
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            return None
        owner = self._asks.value(args[0], scope)
        ref = self._asks.attribute(owner, name.value)
        if isinstance(ref, AbsentRef):
            return False
        return True if isinstance(ref, _THINGS) else None

    def _name(self, test: ast.Name | ast.Attribute, scope: NameScope) -> bool | None:
        if isinstance(test, ast.Name):
            for around in (scope, scope.root()):
                bindings = around.bindings.get(test.id, [])
                if len(bindings) == 1 and bindings[0].kind is BindingKind.VALUE:
                    value = bindings[0].value
                    if isinstance(value, ast.Compare | ast.Call | ast.BoolOp | ast.UnaryOp):
                        return self.decide(value, around)
            if not is_of_module(test.id, scope):
                return None
        ref = self._asks.value(test, scope)
        if isinstance(ref, ConstantRef):
            return bool(ref.value)
        return True if isinstance(ref, ClassRef | FunctionRef | ModuleRef) else None


def is_of_module(name: str, scope: NameScope) -> bool:
    """Whether the name is the module's own, and no function makes another value for it."""
    around: NameScope | None = scope
    while around is not None and name not in around.bindings:
        around = around.parent
    if around is None or around.parent is not None:
        return False
    return not any(name in each.outer for each in _below(around))


def _below(scope: NameScope) -> list[NameScope]:
    scopes = []
    todo = [scope]
    while todo:
        each = todo.pop()
        scopes.append(each)
        todo += each.children.values()
    return scopes


def _compared(first: Any, op: ast.cmpop, second: Any) -> bool | None:
    compare = _COMPARISONS.get(type(op))
    if compare is None:
        return None
    if isinstance(first, Version) != isinstance(second, Version):
        try:
            first, second = _version(first), _version(second)
        except InvalidVersion:
            return None
    try:
        return bool(compare(first, second))
    except TypeError:
        return None


def _version(value: Any) -> Version:
    return value if isinstance(value, Version) else Version(str(value))
