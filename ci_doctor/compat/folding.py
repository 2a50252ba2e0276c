# SPDX-License-Identifier: Apache-2.0
"""Pure. The values of expressions that the source states: numbers, strings, versions, collections."""

import ast
import contextlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from packaging.version import Version

from ci_doctor.compat.scopes import Binding, BindingKind, NameScope
from ci_doctor.compat.world import Asks, ConstantRef, Life, ModuleRef, Ref

FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "all": all,
    "any": any,
    "bool": bool,
    "float": float,
    "int": int,
    "len": len,
    "list": list,
    "map": map,
    "max": max,
    "min": min,
    "str": str,
    "tuple": tuple,
}
METHODS: Final = frozenset(
    {
        *("startswith", "endswith", "split", "rsplit", "partition", "rpartition", "strip"),
        *("lstrip", "rstrip", "replace", "lower", "upper", "isdigit", "isnumeric", "count"),
        *("removeprefix", "removesuffix"),
    }
)
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_PLAIN: Final = (str, int, float, Version, type(None))
_LONGEST: Final = 100_000
_DEEPEST: Final = 30

Environment = Mapping[str, Any]
NOTHING: Final[Environment] = {}


class UndecidedError(Exception):
    """The source does not state the value."""


class _Unstated:
    """A value in a table whose keys are stated."""


_UNSTATED: Final = _Unstated()


class Folding:
    """Computes what an expression gives if all that it rests on is stated in the source."""

    def __init__(self, evaluation: Asks) -> None:
        self._evaluation = evaluation
        self._depth = 0

    def value(self, node: ast.expr, scope: NameScope, names: Environment = NOTHING) -> Any:
        """The value of an expression; `names` are those that stand for a value here.

        Raises UndecidedError if the source does not state it, or if it is a table, which code may
        change.
        """
        value = self._value(node, scope, names)
        if not _is_plain(value):
            raise UndecidedError
        return value

    def contains(
        self, item: ast.expr, table: ast.expr, scope: NameScope, names: Environment = NOTHING
    ) -> bool:
        """`item in table`. Raises UndecidedError."""
        wanted = self.value(item, scope, names)
        held = self._value(table, scope, names)
        if not isinstance(held, str | tuple | list | set | dict):
            raise UndecidedError
        try:
            is_held = wanted in held
        except TypeError as error:
            raise UndecidedError from error
        is_open = not held or (not isinstance(held, str) and _UNSTATED in held)
        if not is_held and is_open:
            raise UndecidedError  # an empty table is filled later
        return is_held

    def _value(self, node: ast.expr, scope: NameScope, names: Environment) -> Any:
        if self._depth > _DEEPEST:
            raise UndecidedError
        self._depth += 1
        try:
            return self._computed(node, scope, names)
        except (
            TypeError,
            ValueError,
            IndexError,
            KeyError,
            AttributeError,
            ArithmeticError,
        ) as error:
            raise UndecidedError from error
        finally:
            self._depth -= 1

    def _computed(self, node: ast.expr, scope: NameScope, names: Environment) -> Any:  # noqa: C901, PLR0911, PLR0912 - a case per form
        match node:
            case ast.Constant():
                return node.value
            case ast.Name() if node.id in names:
                return names[node.id]
            case ast.Name():
                return self._named(node, scope)
            case ast.Attribute():
                return self._attribute(node, scope)
            case ast.Tuple():
                return tuple(self._each(node.elts, scope, names))
            case ast.List():
                return self._each(node.elts, scope, names)
            case ast.Set():
                return set(self._each(node.elts, scope, names))
            case ast.Dict():
                return self._table(node, scope, names)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return [
                    self._value(node.elt, scope, inner)
                    for inner in self._rounds(node.generators, scope, names)
                ]
            case ast.DictComp():
                rounds = self._rounds(node.generators, scope, names)
                return {self._value(node.key, scope, inner): _UNSTATED for inner in rounds}
            case ast.Subscript():
                return self._part(node, scope, names)
            case ast.BinOp():
                left = self._value(node.left, scope, names)
                right = self._value(node.right, scope, names)
                if isinstance(node.op, ast.Mult | ast.Mod) and isinstance(left, str | list | tuple):
                    raise UndecidedError
                return _OPERATORS[type(node.op)](left, right)
            case ast.UnaryOp(op=ast.USub()):
                return -self._value(node.operand, scope, names)
            case ast.IfExp():
                chosen = node.body if self._value(node.test, scope, names) else node.orelse
                return self._value(chosen, scope, names)
            case ast.Call():
                return self._call(node, scope, names)
            case _:
                raise UndecidedError

    def _each(self, nodes: Sequence[ast.expr], scope: NameScope, names: Environment) -> list[Any]:
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values.extend(self._value(node.value, scope, names))
            else:
                values.append(self._or_unstated(node, scope, names))
        return values

    def _or_unstated(self, node: ast.expr, scope: NameScope, names: Environment) -> Any:
        with contextlib.suppress(UndecidedError):
            return self._value(node, scope, names)
        return _UNSTATED

    def _table(self, node: ast.Dict, scope: NameScope, names: Environment) -> dict[Any, Any]:
        table: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                table.update(self._value(value, scope, names))
            else:
                name = self._value(key, scope, names)
                table[name] = self._or_unstated(value, scope, names)
        return table

    def _rounds(
        self, generators: list[ast.comprehension], scope: NameScope, names: Environment
    ) -> Iterator[Environment]:
        first, *others = generators
        items = self._value(first.iter, scope, names)
        if others or first.ifs or first.is_async or len(items) > _LONGEST:
            raise UndecidedError
        for item in items:
            inner = dict(names)
            _bind(first.target, item, inner)
            yield inner

    def _part(self, node: ast.Subscript, scope: NameScope, names: Environment) -> Any:
        held = self._value(node.value, scope, names)
        if isinstance(node.slice, ast.Slice):
            bounds = [
                None if each is None else self._value(each, scope, names)
                for each in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            return held[slice(*bounds)]
        part = held[self._value(node.slice, scope, names)]
        if part is _UNSTATED:
            raise UndecidedError
        return part

    def _call(self, node: ast.Call, scope: NameScope, names: Environment) -> Any:
        if node.keywords:
            raise UndecidedError
        func = node.func
        if isinstance(func, ast.Name) and func.id in FUNCTIONS and not _is_bound(func.id, scope):
            if func.id == "map" and len(node.args) == 2:
                items = self._value(node.args[1], scope, names)
                plain = node.args[0]
                if not isinstance(plain, ast.Name) or plain.id not in {"int", "str", "float"}:
                    raise UndecidedError
                return list(map(FUNCTIONS[plain.id], items))
            return FUNCTIONS[func.id](*self._each(node.args, scope, names))
        if isinstance(func, ast.Attribute) and func.attr in METHODS:
            held = self._value(func.value, scope, names)
            if not isinstance(held, str):
                raise UndecidedError
            return getattr(held, func.attr)(*self._each(node.args, scope, names))
        return _constant(self._evaluation.value(node, scope))

    def _named(self, node: ast.Name, scope: NameScope) -> Any:
        stated = self.source(node, scope)
        if stated is not None:
            value, place = stated
            if isinstance(value, ast.List | ast.Set | ast.Dict | ast.ListComp | ast.DictComp):
                return self._whole(node.id, value, place)
        ref = self._evaluation.value(node, scope)
        if stated is None or isinstance(ref, ConstantRef):
            return _constant(ref)
        return self._value(*stated, NOTHING)

    def _whole(self, name: str, node: ast.expr, scope: NameScope) -> Any:
        """A table with what the module adds to it. Raises UndecidedError if it changes otherwise."""
        table = self._value(node, scope, NOTHING)
        for change in scope.root().changed.get(name, ()):
            if change is None:
                raise UndecidedError
            added = self._value(change, scope, NOTHING)
            if isinstance(table, dict) and isinstance(added, dict):
                table = {**table, **added}
            elif isinstance(table, dict) and isinstance(added, str):
                table = {**table, added: _UNSTATED}
            else:
                raise UndecidedError
        return table

    def _attribute(self, node: ast.Attribute, scope: NameScope) -> Any:
        ref = self._evaluation.value(node, scope)
        stated = None if isinstance(ref, ConstantRef) else self.source(node, scope)
        if isinstance(ref, ConstantRef) or stated is None:
            return _constant(ref)
        return self.value(*stated)

    def source(self, node: ast.expr, scope: NameScope) -> tuple[ast.expr, NameScope] | None:
        """The one expression that a name, or an attribute of a module, stands for, and its scope.

        None if several statements bind it, or if none does by an expression.
        """
        for _ in range(_DEEPEST):
            bound = self.binding(node, scope)
            if bound is None:
                return None
            binding, place = bound
            if binding.kind is BindingKind.VALUE and binding.value is not None:
                if not isinstance(binding.value, ast.Name | ast.Attribute):
                    return binding.value, place
                node, scope = binding.value, place
                continue
            return None
        return None

    def binding(self, node: ast.expr, scope: NameScope) -> tuple[Binding, NameScope] | None:
        """The one statement that binds a name or an attribute of a module, through imports."""
        if isinstance(node, ast.Attribute):
            owner = self._evaluation.value(node.value, scope)
            if not isinstance(owner, ModuleRef):
                return None
            return self._in_module(owner.name, node.attr)
        if not isinstance(node, ast.Name):
            return None
        around: NameScope | None = scope
        while around is not None:
            if node.id in around.bindings and (around is scope or not around.is_class):
                # In a module or a class the last value before a line counts there.
                in_order = around is scope and (around.parent is None or around.is_class)
                return self._followed(node.id, around, node.lineno if in_order else None)
            around = around.parent
        return None

    def _in_module(self, module: str, name: str) -> tuple[Binding, NameScope] | None:
        read = self._evaluation.world.module(module)
        if read is None or name not in read.scope.bindings:
            return None
        return self._followed(name, read.scope)

    def _followed(
        self, name: str, scope: NameScope, line: int | None = None
    ) -> tuple[Binding, NameScope] | None:
        if self._depth > _DEEPEST:
            return None
        live = [
            each
            for each in scope.bindings[name]
            if self._evaluation.runs(each.guards, scope) not in {Life.DEAD, Life.TYPING}
        ]
        if line is not None and len(live) > 1:
            before = [each for each in live if getattr(each.node, "lineno", line) < line]
            is_certain = all(
                self._evaluation.runs(each.guards, scope) == Life.ALWAYS for each in before
            )
            live = before[-1:] if is_certain else []
        if len(live) != 1:
            return None
        binding = live[0]
        if binding.kind is not BindingKind.FROM:
            return binding, scope
        module = self._evaluation.absolute(binding, scope)
        if module is None:
            return None
        self._depth += 1
        try:
            return self._in_module(module, binding.name)
        finally:
            self._depth -= 1


def _constant(ref: Ref) -> Any:
    if isinstance(ref, ConstantRef):
        return ref.value
    raise UndecidedError


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)


def _bind(target: ast.expr, item: Any, names: dict[str, Any]) -> None:
    if isinstance(target, ast.Name):
        names[target.id] = item
        return
    if not isinstance(target, ast.Tuple) or not isinstance(item, tuple | list):
        raise UndecidedError
    for part, value in zip(target.elts, item, strict=True):
        _bind(part, value, names)


def _is_bound(name: str, scope: NameScope) -> bool:
    around: NameScope | None = scope
    while around is not None:
        if name in around.bindings:
            return True
        around = around.parent
    return False
