# SPDX-License-Identifier: Apache-2.0
"""Pure. What names and expressions stand for, followed through imports, assignments and calls; whether a test holds."""

import ast
import builtins
import contextlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from ci_doctor.compat.classes import MANAGERS, ClassMembers, words
from ci_doctor.compat.conditions import Conditions, is_of_module
from ci_doctor.compat.modules import ModuleMembers
from ci_doctor.compat.scopes import Binding, BindingKind, NameScope
from ci_doctor.compat.world import (
    NOTHING,
    UNKNOWN,
    AbsentRef,
    AwaitableRef,
    ClassRef,
    ConstantRef,
    Environment,
    FunctionRef,
    InstanceRef,
    Life,
    ModuleRef,
    OutsideRef,
    Ref,
    SuperRef,
    TableRef,
    UndecidedError,
    UnionRef,
    UnknownRef,
    World,
    joined,
)

# Forms that stand for what is in their brackets.
_THROUGH: Final = frozenset(
    {"Optional", "Annotated", "Final", "ClassVar", "Required", "NotRequired"}
)
_PARSERS: Final = frozenset(
    {
        "packaging.version.Version",
        "packaging.version.parse",
        "packaging.version.LooseVersion",
        "distutils.version.LooseVersion",
        "distutils.version.StrictVersion",
        "pkg_resources.parse_version",
    }
)
_VERSION_OF: Final = frozenset({"importlib.metadata.version", "importlib_metadata.version"})
_SAME: Final = frozenset({"copy.copy", "copy.deepcopy"})
_CASTS: Final = frozenset({"typing.cast", "typing_extensions.cast"})
_VERSION_PARTS: Final = frozenset({"major", "minor", "micro", "release", "base_version", "public"})
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
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
_METHODS: Final = frozenset(
    {
        *("startswith", "endswith", "split", "rsplit", "partition", "rpartition", "strip"),
        *("lstrip", "rstrip", "replace", "lower", "upper", "isdigit", "isnumeric", "count"),
        *("removeprefix", "removesuffix"),
    }
)
_OPERATORS: Final[Mapping[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_THINGS: Final = ClassRef | FunctionRef | ModuleRef
_TABLES: Final = (ast.List, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp)
_PLAIN: Final = (str, int, float, Version, type(None))
# What an operation on values of the wrong kinds raises.
_NO_VALUE: Final = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
_LONGEST: Final = 100_000
_DEEPEST: Final = 80
# A value in a table whose keys are stated.
_UNSTATED: Final = object()


class Evaluation:
    """Answers what a name, an attribute or an expression stands for; each answer is kept."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.conditions = Conditions(self)
        self.classes = ClassMembers(self, self.conditions)
        self.modules = ModuleMembers(self, self.conditions)
        # What the parts ask each other (`Asks`).
        self.imported = self.modules.imported
        self.absolute = self.modules.absolute
        self._values: dict[tuple[int, int], Ref] = {}
        self._bindings: dict[tuple[int, int], Ref] = {}
        self._decided: dict[tuple[int, int], bool | None] = {}
        self._depth = 0

    def value(self, node: ast.expr, scope: NameScope, names: Environment = NOTHING) -> Ref:
        """What an expression stands for in a scope; `names` are those that stand for a value here."""
        key = (id(node), id(scope))
        if not names and key in self._values:
            return self._values[key]
        # An expression that needs itself, as in a loop, is unknown while it is looked at.
        ref: Ref = UNKNOWN
        self._values[key] = ref
        if self._depth <= _DEEPEST:
            self._depth += 1
            try:
                ref = self._form(node, scope, names)
            except (UndecidedError, *_NO_VALUE):
                pass
            finally:
                self._depth -= 1
        if names:
            del self._values[key]
        else:
            self._values[key] = ref
        return ref

    def stated(self, node: ast.expr, scope: NameScope, names: Environment = NOTHING) -> Any:
        """The value of an expression. Raises UndecidedError if the source does not state it.

        So it is of a table, which code may change.
        """
        ref = self.value(node, scope, names)
        if not isinstance(ref, ConstantRef):
            raise UndecidedError
        return ref.value

    def contains(
        self, item: ast.expr, table: ast.expr, scope: NameScope, names: Environment = NOTHING
    ) -> bool | None:
        """`item in table`; None if the source does not decide it."""
        try:
            wanted = self.stated(item, scope, names)
            held = self._any(table, scope, names)
            is_held: bool = wanted in held
            is_open = not held or (not isinstance(held, str) and _UNSTATED in held)
        except (UndecidedError, TypeError):
            return None
        # An empty table is filled later.
        return None if not is_held and is_open else is_held

    def decide(self, test: ast.expr, scope: NameScope, names: Environment = NOTHING) -> bool | None:
        """Whether `test` is true in `scope`; None if the source does not decide it."""
        key = (id(test), id(scope))
        if names:
            return self._decide(test, scope, names)
        if key not in self._decided:
            # A test that needs itself is not decided.
            self._decided[key] = None
            self._decided[key] = self._decide(test, scope, names)
        return self._decided[key]

    def _decide(self, test: ast.expr, scope: NameScope, names: Environment) -> bool | None:
        decided: bool | None = None
        match test:
            case ast.UnaryOp(op=ast.Not()):
                inner = self.decide(test.operand, scope, names)
                return None if inner is None else not inner
            case ast.BoolOp():
                parts = [self.decide(value, scope, names) for value in test.values]
                # One false part makes a conjunction false, one true part a disjunction true.
                return _all_agree(parts, isinstance(test.op, ast.And))
            case ast.Compare():
                # `a < b < c` is true if each of its comparisons is.
                sides = [test.left, *test.comparators]
                parts = [
                    self._compare(sides[index], op, sides[index + 1], scope, names)
                    for index, op in enumerate(test.ops)
                ]
                return _all_agree(parts, is_and=True)
            case ast.Call():
                decided = self._asked(test, scope, names)
            case ast.Name() if not names:
                return self._flag(test, scope)
        ref = self.value(test, scope, names)
        if isinstance(ref, ConstantRef):
            return bool(ref.value)
        is_thing = isinstance(test, ast.Attribute) and isinstance(ref, _THINGS)
        return True if is_thing and not names else decided

    def _asked(self, test: ast.Call, scope: NameScope, names: Environment) -> bool | None:
        """`hasattr`, `bool`, or a function that only returns one expression."""
        match test:
            case ast.Call(func=ast.Name(id="hasattr"), args=[owner, ast.Constant(value=str(name))]):
                ref = self.attribute(self.value(owner, scope), name)
                return (
                    True
                    if isinstance(ref, _THINGS)
                    else (False if isinstance(ref, AbsentRef) else None)
                )
            case ast.Call(func=ast.Name(id="bool"), args=[only]):
                return self.decide(only, scope, names)
            case ast.Call(args=[], keywords=[]):
                ref = self.value(test.func, scope)
                if isinstance(ref, FunctionRef) and len(ref.scope.returns) == 1:
                    returned, guards = ref.scope.returns[0]
                    if returned is not None and not guards:
                        return self.decide(returned, ref.scope)
            case _:
                pass
        return None

    def _flag(self, test: ast.Name, scope: NameScope) -> bool | None:
        """A name as a test: that of one comparison, or of the module's own."""
        for around in (scope, scope.root()):
            bindings = around.bindings.get(test.id, [])
            if len(bindings) == 1 and bindings[0].kind is BindingKind.VALUE:
                value = bindings[0].value
                if isinstance(value, ast.Compare | ast.Call | ast.BoolOp | ast.UnaryOp):
                    return self.decide(value, around)
        ref = self.value(test, scope) if is_of_module(test.id, scope) else None
        if isinstance(ref, ConstantRef):
            return bool(ref.value)
        return True if isinstance(ref, _THINGS) else None

    def _compare(
        self, left: ast.expr, op: ast.cmpop, right: ast.expr, scope: NameScope, names: Environment
    ) -> bool | None:
        holds: bool | None = None
        match op:
            case ast.In() | ast.NotIn():
                holds = self._in_signature(left, right, scope)
                holds = self.contains(left, right, scope, names) if holds is None else holds
            case ast.Is() | ast.IsNot():
                is_none = isinstance(right, ast.Constant) and right.value is None
                ref = self.value(left, scope) if is_none and isinstance(left, ast.Name) else None
                if isinstance(left, ast.Name) and isinstance(ref, ConstantRef):
                    holds = ref.value is None if is_of_module(left.id, scope) else None
                elif isinstance(ref, _THINGS):
                    holds = False
            case _:
                with contextlib.suppress(UndecidedError, InvalidVersion, *_NO_VALUE):
                    first = self.stated(left, scope, names)
                    second = self.stated(right, scope, names)
                    if isinstance(first, Version) != isinstance(second, Version):
                        first, second = Version(str(first)), Version(str(second))
                    holds = bool(_OPERATORS[type(op)](first, second))
        if holds is not None and isinstance(op, ast.NotIn | ast.IsNot):
            return not holds
        return holds

    def _in_signature(self, left: ast.expr, right: ast.expr, scope: NameScope) -> bool | None:
        """`"name" in inspect.signature(f).parameters`."""
        if not isinstance(left, ast.Constant) or not isinstance(left.value, str):
            return None
        for node in ast.walk(right):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("signature"):
                ref = self.value(node.args[0], scope) if node.args else None
                if isinstance(ref, ClassRef):
                    ref = self.classes.member(ref, "__init__")
                taken = (
                    getattr(ref.scope.node, "args", None) if isinstance(ref, FunctionRef) else None
                )
                if not isinstance(taken, ast.arguments):
                    return None
                plain = (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)
                return left.value in {each.arg for each in plain}
        return None

    def _form(  # noqa: C901, PLR0911, PLR0912 - a case per form
        self, node: ast.expr, scope: NameScope, names: Environment
    ) -> Ref:
        match node:
            case ast.Constant():
                return ConstantRef(node.value)
            case ast.Name():
                known = node.id in names
                return _constant(names[node.id]) if known else self._named(node, scope)
            case ast.Attribute():
                # A test in the function looks at the type of the owner.
                if scope.narrowed and ast.unparse(node.value) in scope.narrowed:
                    return UNKNOWN
                return self.attribute(self.value(node.value, scope), node.attr)
            case ast.Subscript():
                ref = self.value(node.value, scope, names)
                return ref if isinstance(ref, ClassRef) else self._part(node, scope, names)
            case ast.Call():
                return self._call(node, scope, names)
            case ast.Await():
                ref = self.value(node.value, scope)
                return ref.result if isinstance(ref, AwaitableRef) else UNKNOWN
            case ast.IfExp():
                decided = self.decide(node.test, scope, names)
                if decided is not None:
                    return self.value(node.body if decided else node.orelse, scope, names)
                return joined([self.value(each, scope) for each in (node.body, node.orelse)])
            case ast.BoolOp(op=ast.Or()):
                refs = [self.value(each, scope) for each in node.values]
                if not all(isinstance(each, ConstantRef) for each in refs):
                    return joined(refs)
                return self._truth(node, scope, names)
            case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return self._truth(node, scope, names)
            case ast.NamedExpr():
                return self.value(node.value, scope)
            case _:
                return _constant(self._computed(node, scope, names))

    def _truth(self, node: ast.expr, scope: NameScope, names: Environment) -> Ref:
        decided = self.decide(node, scope, names)
        return UNKNOWN if decided is None else ConstantRef(decided)

    def _any(self, node: ast.expr, scope: NameScope, names: Environment) -> Any:
        """The value of an expression, which may be a table. Raises UndecidedError."""
        ref = self.value(node, scope, names)
        if not isinstance(ref, ConstantRef | TableRef):
            raise UndecidedError
        return ref.value

    def _computed(self, node: ast.expr, scope: NameScope, names: Environment) -> Any:  # noqa: C901, PLR0911 - a case per form
        """The value that the source states by this form. Raises UndecidedError, or what Python raises."""
        match node:
            case ast.Tuple():
                return tuple(self._each(node.elts, scope, names))
            case ast.List():
                return self._each(node.elts, scope, names)
            case ast.Set():
                return set(self._each(node.elts, scope, names))
            case ast.Dict():
                return self._table(node, scope, names)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                rounds = self._rounds(node.generators, scope, names)
                return [self._any(node.elt, scope, inner) for inner in rounds]
            case ast.DictComp():
                rounds = self._rounds(node.generators, scope, names)
                return {self._any(node.key, scope, inner): _UNSTATED for inner in rounds}
            case ast.BinOp():
                left = self._any(node.left, scope, names)
                right = self._any(node.right, scope, names)
                if isinstance(node.op, ast.Mult | ast.Mod) and isinstance(left, str | list | tuple):
                    raise UndecidedError
                return _OPERATORS[type(node.op)](left, right)
            case ast.UnaryOp(op=ast.USub()):
                return -self._any(node.operand, scope, names)
            case _:
                raise UndecidedError

    def _each(self, nodes: Sequence[ast.expr], scope: NameScope, names: Environment) -> list[Any]:
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values.extend(self._any(node.value, scope, names))
            else:
                values.append(self._or_unstated(node, scope, names))
        return values

    def _or_unstated(self, node: ast.expr, scope: NameScope, names: Environment) -> Any:
        with contextlib.suppress(UndecidedError):
            return self._any(node, scope, names)
        return _UNSTATED

    def _table(self, node: ast.Dict, scope: NameScope, names: Environment) -> dict[Any, Any]:
        table: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                table.update(self._any(value, scope, names))
            else:
                table[self._any(key, scope, names)] = self._or_unstated(value, scope, names)
        return table

    def _rounds(
        self, generators: list[ast.comprehension], scope: NameScope, names: Environment
    ) -> Iterator[Environment]:
        first, *others = generators
        items = self._any(first.iter, scope, names)
        if others or first.ifs or first.is_async or len(items) > _LONGEST:
            raise UndecidedError
        targets = first.target.elts if isinstance(first.target, ast.Tuple) else [first.target]
        for item in items:
            parts = item if isinstance(first.target, ast.Tuple) else [item]
            pairs = zip(targets, parts, strict=True)
            yield {**names, **{each.id: part for each, part in pairs if isinstance(each, ast.Name)}}

    def _part(self, node: ast.Subscript, scope: NameScope, names: Environment) -> Ref:
        held = self._any(node.value, scope, names)
        if isinstance(node.slice, ast.Slice):
            bounds = [
                None if each is None else self._any(each, scope, names)
                for each in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            return _constant(held[slice(*bounds)])
        return _constant(held[self._any(node.slice, scope, names)])

    def _named(self, node: ast.Name, scope: NameScope) -> Ref:
        ref = self.lookup(node.id, scope)
        if type(ref) is not UnknownRef or not (scope.parent is None or scope.is_class):
            return ref
        # In a module or a class the last value before a line counts there: a name may be deleted later.
        lives = [
            (self.conditions.runs(each.guards, scope), each)
            for each in scope.bindings.get(node.id, ())
            if getattr(each.node, "lineno", node.lineno) < node.lineno
        ]
        if not lives or any(life is not Life.ALWAYS for life, _ in lives):
            return ref
        before = self.binding(lives[-1][1], scope)
        if isinstance(before, TableRef):
            before = self._changed(node.id, before, scope)
        return before if isinstance(before, ConstantRef | TableRef) else ref

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
        star = self.modules.from_stars(scope.root(), name)
        if star is not None:
            return star
        if hasattr(builtins, name):
            return OutsideRef(f"builtins.{name}")
        return UNKNOWN

    def bound(self, name: str, scope: NameScope, *, typing: bool = False) -> Ref | None:
        """What a name stands for in this very scope; None if no line there binds it."""
        bindings = scope.bindings.get(name)
        if not bindings:
            return None
        # A function below may declare it global or nonlocal, and give it any value.
        if name in scope.outer or (not scope.is_class and self._is_outer(name, scope)):
            return UNKNOWN
        in_order = scope.parent is None or scope.is_class
        refs: list[Ref] = []
        gone: Ref | None = None
        for binding in bindings:
            life = self.conditions.runs(binding.guards, scope)
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
        whole = joined(refs) if refs else gone
        return self._changed(name, whole, scope) if isinstance(whole, TableRef) else whole

    def _changed(self, name: str, ref: TableRef, scope: NameScope) -> Ref:
        """A table with what the module adds to it; unknown if it changes otherwise."""
        table = ref.value
        for change in scope.root().changed.get(name, ()):
            if change is None or not isinstance(table, dict):
                return UNKNOWN
            added = self.value(change, scope)
            if isinstance(added, ConstantRef) and isinstance(added.value, str):
                table = {**table, added.value: _UNSTATED}
            elif isinstance(added, TableRef) and isinstance(added.value, dict):
                table = {**table, **added.value}
            else:
                return UNKNOWN
        return TableRef(value=table)

    def binding(self, binding: Binding, scope: NameScope) -> Ref:
        """What one statement binds."""
        key = (id(binding), id(scope))
        if key not in self._bindings:
            self._bindings[key] = UNKNOWN
            self._bindings[key] = self._bind(binding, scope)
        return self._bindings[key]

    def _bind(self, binding: Binding, scope: NameScope) -> Ref:
        ref: Ref = UNKNOWN
        match binding.kind:
            case BindingKind.IMPORT:
                ref = self.modules.imported(binding.target, binding.name)
            case BindingKind.FROM:
                ref = self.modules.imported_from(binding, scope)
            case BindingKind.FUNCTION | BindingKind.CLASS:
                ref = self.classes.defined(binding, scope)
            case BindingKind.VALUE:
                ref = self._assigned(binding, scope)
            case BindingKind.PARAMETER:
                ref = self.classes.first_parameter(binding, scope) or self._assigned(binding, scope)
            case BindingKind.WITH if binding.value is not None:
                enter = self.attribute(self.value(binding.value, scope), "__enter__")
                ref = self.returned(enter) if isinstance(enter, FunctionRef) else UNKNOWN
        return ref

    def _is_outer(self, name: str, scope: NameScope) -> bool:
        return any(
            name in child.outer or (not child.is_class and self._is_outer(name, child))
            for child in scope.children.values()
        )

    def _assigned(self, binding: Binding, scope: NameScope) -> Ref:
        ref = UNKNOWN if binding.value is None else self.value(binding.value, scope)
        vague = isinstance(ref, UnknownRef | OutsideRef | UnionRef) and not isinstance(
            ref, TableRef
        )
        is_none = isinstance(ref, ConstantRef) and ref.value is None
        if binding.annotation is not None and (vague or is_none):
            return self.annotation(binding.annotation, scope)
        return ref

    def attribute(self, ref: Ref, name: str) -> Ref:  # noqa: PLR0911 - a case per form
        """What an attribute stands for."""
        match ref:
            case ModuleRef():
                return self.modules.member(ref.name, name)
            case OutsideRef(path="sys") if name == "version_info":
                return ConstantRef((*self.world.python, 0, "final", 0))
            case OutsideRef():
                return OutsideRef(f"{ref.path}.{name}")
            case ClassRef() | InstanceRef() | SuperRef():
                return self.classes.attribute(ref, name)
            case ConstantRef(value=tuple() as parts) if name in {"major", "minor"} and parts[1:]:
                return ConstantRef(parts[name == "minor"])
            case ConstantRef() if name in _VERSION_PARTS and hasattr(ref.value, name):
                return ConstantRef(getattr(ref.value, name))
            case UnionRef():
                return joined([self.attribute(each, name) for each in ref.options])
            case _:
                return UNKNOWN

    def annotation(self, node: ast.expr, scope: NameScope) -> Ref:  # noqa: PLR0911 - a case per form
        """What a value with that annotation stands for.

        A class below the named one is possible, so no instance is exact.
        """
        match node:
            case ast.Constant(value=str() as text):
                with contextlib.suppress(SyntaxError, ValueError, RecursionError):
                    # No other line has this node, so what is kept for it must not outlive it.
                    return self.annotation(ast.parse(text.strip(), mode="eval").body, scope)
            case ast.BinOp(op=ast.BitOr()):
                return self._union([node.left, node.right], scope)
            case ast.Subscript():
                form = ast.unparse(node.value).rpartition(".")[2]
                parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                # `Optional[X]` and its like stand for what is in their brackets.
                if form == "Union" or form in _THROUGH:
                    return self._union(parts if form == "Union" else parts[:1], scope)
                return UNKNOWN if form in {"type", "Type"} else self.annotation(node.value, scope)
            case ast.Name() | ast.Attribute():
                ref = self._reference(node, scope)
                if isinstance(ref, ClassRef):
                    return InstanceRef(ref, is_exact=False)
                return ref if isinstance(ref, UnknownRef) else UNKNOWN
            case _:
                pass
        return UNKNOWN

    def _union(self, options: Sequence[ast.expr], scope: NameScope) -> Ref:
        real = [
            each for each in options if not (isinstance(each, ast.Constant) and each.value is None)
        ]
        return self.annotation(real[0], scope) if len(real) == 1 else UNKNOWN

    def _reference(self, node: ast.expr, scope: NameScope) -> Ref:
        # What is imported under TYPE_CHECKING counts here.
        if isinstance(node, ast.Name):
            return self.lookup(node.id, scope, typing=True)
        if isinstance(node, ast.Attribute):
            return self.attribute(self._reference(node.value, scope), node.attr)
        return UNKNOWN

    def _call(self, node: ast.Call, scope: NameScope, names: Environment) -> Ref:
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in _METHODS and not node.keywords:
            held = self.value(func.value, scope, names)
            if isinstance(held, ConstantRef) and isinstance(held.value, str):
                arguments = [self._any(each, scope, names) for each in node.args]
                return _constant(getattr(held.value, func.attr)(*arguments))
        ref = self.value(func, scope)
        options = ref.options if isinstance(ref, UnionRef) else (ref,)
        return joined([self._result(each, node, scope, names) for each in options])

    def _result(self, ref: Ref, node: ast.Call, scope: NameScope, names: Environment) -> Ref:
        match ref:
            case ClassRef():
                return self.classes.instance(ref)
            case FunctionRef():
                return self.returned(ref)
            case OutsideRef():
                return self._outside(ref.path, node, scope, names)
            case InstanceRef():
                called = self.attribute(ref, "__call__")
                return self.returned(called) if isinstance(called, FunctionRef) else UNKNOWN
            case UnknownRef() if not isinstance(ref, TableRef):
                return ref
            case _:
                return UNKNOWN

    def returned(self, ref: FunctionRef) -> Ref:
        """What a call of the function gives back."""
        node = ref.scope.node
        if isinstance(node, ast.Lambda):
            return self.value(node.body, ref.scope)
        if isinstance(node, ast.Module | ast.ClassDef) or ref.scope.is_generator:
            return UNKNOWN
        # A call of a context manager's function does not give what the body returns.
        if MANAGERS & set(words(node)):
            return UNKNOWN
        result = self._result_of_body(ref, node.returns)
        return AwaitableRef(result) if isinstance(node, ast.AsyncFunctionDef) else result

    def _result_of_body(self, ref: FunctionRef, returns: ast.expr | None) -> Ref:
        if returns is not None:
            text = ast.unparse(returns).strip("'\"")
            if text.rpartition(".")[2] == "Self" and ref.owner is not None:
                return InstanceRef(ClassRef(ref.owner), is_exact=False)
            declared = self.annotation(returns, ref.scope.parent or ref.scope)
            if isinstance(declared, InstanceRef):
                return declared
        values = [
            self.value(value, ref.scope)
            for value, guards in ref.scope.returns
            if value is not None and self.conditions.runs(guards, ref.scope)
        ]
        return joined(values) if values else UNKNOWN

    def _outside(  # noqa: PLR0911 - a case per function
        self, path: str, node: ast.Call, scope: NameScope, names: Environment
    ) -> Ref:
        top, _, word = path.partition(".")
        if path == "builtins.super":
            return self._super(node, scope)
        if top == "builtins" and word in _FUNCTIONS and not node.keywords:
            return _constant(self._applied(word, node.args, scope, names))
        match node.args:
            case [first, *_] if path in _PARSERS:
                return ConstantRef(Version(str(self.stated(first, scope, names))))
            case [ast.Constant(value=name), *_] if path in _VERSION_OF:
                return ConstantRef(self.world.versions()[str(name)])
            case [first, *_] if path in _SAME:
                return self.value(first, scope)
            case [first, *_] if path in _CASTS:
                return self.annotation(first, scope)
            case [ast.Constant(value=name), *_] if path == "importlib.import_module":
                return ModuleRef(str(name)) if self.world.file(str(name)) else UNKNOWN
        return UNKNOWN

    def _applied(
        self, name: str, arguments: list[ast.expr], scope: NameScope, names: Environment
    ) -> Any:
        """What a function of Python's own gives. Raises UndecidedError, or what the function raises."""
        if name != "map":
            return _FUNCTIONS[name](*[self._any(each, scope, names) for each in arguments])
        plain, items = arguments
        if not isinstance(plain, ast.Name) or plain.id not in {"int", "str", "float"}:
            raise UndecidedError
        return list(map(_FUNCTIONS[plain.id], self._any(items, scope, names)))

    def _super(self, node: ast.Call, scope: NameScope) -> Ref:
        function: NameScope | None = scope
        while function is not None and not (function.parent and function.parent.is_class):
            function = function.parent
        if function is None or function.parent is None or node.args:
            return UNKNOWN
        return SuperRef(ClassRef(function.parent), is_class=self.classes.is_class_level(function))


def _all_agree(states: Sequence[bool | None], is_and: bool) -> bool | None:
    """The conjunction of `states`, or their disjunction; None if what is not known decides it."""
    if (not is_and) in states:
        return not is_and
    return None if None in states else is_and


def _constant(value: Any) -> Ref:
    """A value that the source states. Raises UndecidedError for one that it does not."""
    if value is _UNSTATED:
        raise UndecidedError
    return ConstantRef(value) if _is_plain(value) else TableRef(value=value)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)
