# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a statement runs: what versions, imports and constants decide about its guards."""

import ast
import contextlib
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from ci_doctor.compat.folding import NOTHING, Environment, Folding, UndecidedError
from ci_doctor.compat.scope_reader import last_word
from ci_doctor.compat.scopes import (
    Binding,
    BindingKind,
    Except,
    Guard,
    GuardKind,
    Guards,
    NameScope,
)
from ci_doctor.compat.world import (
    AbsentRef,
    Asks,
    Caught,
    ClassRef,
    ConstantRef,
    FunctionRef,
    Life,
    ModuleRef,
    OutsideRef,
    Ref,
    UnionRef,
    UnknownRef,
)

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

    def __init__(self, evaluation: Asks) -> None:
        self._evaluation = evaluation
        self.folding = Folding(evaluation)
        self._depth = 0

    def decide(self, test: ast.expr, scope: NameScope, names: Environment = NOTHING) -> bool | None:
        """Whether `test` is true in `scope`; `names` are those that stand for a value here."""
        if self._depth > _DEEPEST:
            return None
        self._depth += 1
        try:
            return self._decide(test, scope, names)
        finally:
            self._depth -= 1

    def _decide(self, test: ast.expr, scope: NameScope, names: Environment) -> bool | None:  # noqa: PLR0911 - a case per form
        match test:
            case ast.Constant():
                return bool(test.value)
            case ast.UnaryOp(op=ast.Not()):
                inner = self.decide(test.operand, scope, names)
                return None if inner is None else not inner
            case ast.BoolOp():
                return self._chain(test, scope, names)
            case ast.Compare():
                return self._comparisons(test, scope, names)
            case ast.Call():
                return self._call(test, scope, names)
            case ast.Name() | ast.Attribute() if not names:
                return self._name(test, scope)
            case _:
                return self._folded(test, scope, names)

    def _folded(self, test: ast.expr, scope: NameScope, names: Environment) -> bool | None:
        with contextlib.suppress(UndecidedError):
            return bool(self.folding.value(test, scope, names))
        return None

    def _comparisons(self, test: ast.Compare, scope: NameScope, names: Environment) -> bool | None:
        """`a < b < c` is true if each of its comparisons is."""
        lefts = [test.left, *test.comparators[:-1]]
        states = [
            self._compare(left, op, right, scope, names)
            for left, op, right in zip(lefts, test.ops, test.comparators, strict=True)
        ]
        if False in states:
            return False
        return None if None in states else True

    def _chain(self, test: ast.BoolOp, scope: NameScope, names: Environment) -> bool | None:
        is_and = isinstance(test.op, ast.And)
        decided = [self.decide(value, scope, names) for value in test.values]
        # One false part makes a conjunction false, one true part a disjunction true.
        if (not is_and) in decided:
            return not is_and
        return None if None in decided else is_and

    def _compare(
        self, left: ast.expr, op: ast.cmpop, right: ast.expr, scope: NameScope, names: Environment
    ) -> bool | None:
        if isinstance(op, ast.In | ast.NotIn):
            held = self._in_signature(left, right, scope)
            with contextlib.suppress(UndecidedError):
                if held is None:
                    held = self.folding.contains(left, right, scope, names)
            return held if held is None or isinstance(op, ast.In) else not held
        if isinstance(op, ast.Is | ast.IsNot):
            same = self._is_none(left, right, scope)
            return same if same is None or isinstance(op, ast.Is) else not same
        try:
            first = self.folding.value(left, scope, names)
            second = self.folding.value(right, scope, names)
        except UndecidedError:
            return None
        return _compared(first, op, second)

    def _is_none(self, left: ast.expr, right: ast.expr, scope: NameScope) -> bool | None:
        if not isinstance(right, ast.Constant) or right.value is not None:
            return None
        if not isinstance(left, ast.Name):
            return None
        ref = self._evaluation.value(left, scope)
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
                ref = self._evaluation.value(node.args[0], scope) if node.args else None
                return None if ref is None else self._takes(ref, left.value)
        return None

    def _takes(self, ref: Ref, name: str) -> bool | None:
        if isinstance(ref, ClassRef):
            ref = self._evaluation.class_member(ref, "__init__")
        if not isinstance(ref, FunctionRef):
            return None
        arguments = getattr(ref.scope.node, "args", None)
        if not isinstance(arguments, ast.arguments):
            return None
        names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        return name in {each.arg for each in names}

    def _call(self, test: ast.Call, scope: NameScope, names: Environment) -> bool | None:
        name = ast.unparse(test.func)
        if name == "hasattr" and len(test.args) == 2:
            return self._has(test.args, scope)
        if name == "bool" and len(test.args) == 1:
            return self.decide(test.args[0], scope, names)
        if test.args or test.keywords:
            return self._folded(test, scope, names)
        ref = self._evaluation.value(test.func, scope)
        if isinstance(ref, FunctionRef) and len(ref.scope.returns) == 1:
            returned, guards = ref.scope.returns[0]
            if returned is not None and not guards:
                return self.decide(returned, ref.scope)
        return self._folded(test, scope, names)

    def _has(self, args: Sequence[ast.expr], scope: NameScope) -> bool | None:
        name = args[1]
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            return None
        owner = self._evaluation.value(args[0], scope)
        ref = self._evaluation.attribute(owner, name.value)
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
        ref = self._evaluation.value(test, scope)
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
    below = [around]
    for each in below:
        below += each.children.values()
    return not any(name in each.outer for each in below)


def _compared(first: Any, op: ast.cmpop, second: Any) -> bool | None:
    compare = _COMPARISONS.get(type(op))
    if compare is None:
        return None
    if isinstance(first, Version) != isinstance(second, Version):
        try:
            first, second = Version(str(first)), Version(str(second))
        except InvalidVersion:
            return None
    try:
        return bool(compare(first, second))
    except TypeError:
        return None


# A test of these words may be about what the callee has. If it is not decided, nothing under it is certain.
_ABOUT_NAMES: Final = re.compile(
    r"(?i)version|signature|parameters|find_spec|has_|have_|avail|support|legacy|compat"
)
# Such a test is about one object. Behind it, not inside it, other objects are as certain as before.
_ABOUT_ONE: Final = re.compile(r"hasattr|getattr")
_IMPORT_ERRORS: Final = frozenset({"ImportError", "ModuleNotFoundError"})
_BROAD: Final = frozenset({"Exception", "BaseException"})
_CALLS: Final = (ast.Call, ast.Import, ast.ImportFrom, ast.With, ast.AsyncWith)
# Names that a test is followed through.
_MOST_LOOKED_AT: Final = 200


class Conditions:
    """Whether statements run, by the conditions around them."""

    def __init__(self, evaluation: Asks) -> None:
        self._evaluation = evaluation
        self.decisions = Decisions(evaluation)
        self._imports: dict[int, bool | None] = {}
        self._branches: dict[tuple[int, int], Life] = {}
        self._marks: dict[int, Life] = {}

    def runs(self, guards: Guards, scope: NameScope) -> Life:
        """The least certain of the conditions."""
        least = self._marked(scope)
        for guard in guards:
            least = min(least, self._life(guard, scope))
            if least is Life.DEAD:
                break
        return least

    def caught(self, guards: Guards, error: str) -> Caught:
        """Whether an `error` (ImportError, AttributeError, TypeError) raised there is handled."""
        for guard in reversed(guards):
            outcome = Caught.NOT
            if guard.kind is GuardKind.BODY and isinstance(guard.node, Except):
                matching = [
                    (_matching(_caught_names(each), error), each) for each in guard.node.handlers
                ]
                first = next((each for each in matching if each[0] is not Caught.NOT), None)
                # A handler that raises hides nothing.
                if first and not any(isinstance(each, ast.Raise) for each in first[1].body):
                    outcome = first[0]
            elif guard.kind is GuardKind.SUPPRESS and isinstance(guard.node, ast.Call):
                outcome = _matching(set(map(_last_word, guard.node.args)), error)
            if outcome is not Caught.NOT:
                return outcome
        return Caught.NOT

    def _marked(self, scope: NameScope) -> Life:
        """Whether the marks of the classes around `scope`, and `pytestmark`, let its tests run."""
        key = id(scope)
        if key not in self._marks:
            self._marks[key] = Life.ALWAYS
            self._marks[key] = self._by_marks(scope)
        return self._marks[key]

    def _by_marks(self, scope: NameScope) -> Life:
        least = Life.ALWAYS
        # What stands in a module or a class itself runs when it is imported.
        around = None if scope.is_class else scope.parent
        while around is not None:
            for guard in around.marks:
                least = min(least, self._mark(guard.node, around))
            for binding in around.bindings.get("pytestmark", ()):
                value = binding.value
                elements = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
                for element in elements:
                    if element is not None:
                        least = min(least, self._mark(element, around))
            around = around.parent
        return least

    def _mark(self, node: ast.AST, scope: NameScope) -> Life:
        """Whether a test runs with this decorator, or behind this `importorskip`."""
        if not isinstance(node, ast.expr):
            return Life.ALWAYS
        place = scope
        if not isinstance(node, ast.Call):
            stated = self.decisions.folding.source(node, scope)
            if stated is not None:
                node, place = stated
        call = node.func if isinstance(node, ast.Call) else node
        word = last_word(call)
        if word in {"skipif", "skipIf", "skipUnless"} and isinstance(node, ast.Call):
            return self._skipped(node, place, runs_if=word == "skipUnless")
        if word == "importorskip" and isinstance(node, ast.Call):
            return self._import_or_skip(node, place)
        if word == "skip":
            return Life.DEAD
        return Life.GUARDED if word in {"xfail", "expectedFailure"} else Life.ALWAYS

    def _skipped(self, call: ast.Call, scope: NameScope, *, runs_if: bool) -> Life:
        tests = call.args[:1] + [each.value for each in call.keywords if each.arg == "condition"]
        if not tests:
            return Life.GUARDED
        decided = None
        # pytest evaluates a text itself.
        if not isinstance(tests[0], ast.Constant) or not isinstance(tests[0].value, str):
            decided = self.decisions.decide(tests[0], scope)
        if decided is not None:
            return Life.ALWAYS if decided is runs_if else Life.DEAD
        return Life.GUARDED

    def _import_or_skip(self, call: ast.Call, scope: NameScope) -> Life:
        if not call.args or not isinstance(call.args[0], ast.Constant):
            return Life.GUARDED
        name = str(call.args[0].value)
        state = self._evaluation.imported(name, name)
        if isinstance(state, AbsentRef):
            return Life.DEAD
        least = [each.value for each in call.keywords if each.arg == "minversion"] + call.args[1:2]
        version = self._evaluation.world.versions().get(name.partition(".")[0])
        if not least or not isinstance(state, ModuleRef) or version is None:
            return Life.GUARDED if least else Life.ALWAYS
        try:
            wanted = self.decisions.folding.value(least[0], scope)
            return Life.ALWAYS if Version(version) >= Version(str(wanted)) else Life.DEAD
        except (UndecidedError, InvalidVersion):
            return Life.GUARDED

    def _life(self, guard: Guard, scope: NameScope) -> Life:
        if guard.kind in {GuardKind.MARK, GuardKind.TEST}:
            key = (id(guard), id(scope))
            if key not in self._branches:
                # While a test is looked at, it is not decided for the names that it needs.
                self._branches[key] = Life.SOMETIMES
                if guard.kind is GuardKind.TEST and isinstance(guard.node, ast.expr):
                    self._branches[key] = self._branch(guard, guard.node, scope)
                else:
                    # A decorator is evaluated around its function.
                    place = scope if guard.is_behind else scope.parent or scope
                    self._branches[key] = self._mark(guard.node, place)
            return self._branches[key]
        if isinstance(guard.node, Except):
            if guard.kind is GuardKind.BODY:
                before = guard.node.body[: guard.index]
                return Life.DEAD if self._imports_of(before, scope) is False else Life.ALWAYS
            if guard.kind is GuardKind.HANDLER:
                return self._handler(guard.node, guard.index, scope)
            if guard.kind is GuardKind.ELSE and self._imports_of(guard.node.body, scope) is False:
                return Life.DEAD
        return Life.ALWAYS

    def _branch(self, guard: Guard, test: ast.expr, scope: NameScope) -> Life:
        if _last_word(test) == "TYPE_CHECKING":
            return Life.TYPING if guard.holds else Life.ALWAYS
        decided = self.decisions.decide(test, scope)
        if decided is not None:
            return Life.ALWAYS if decided is guard.holds else Life.DEAD
        if not guard.is_behind and _ABOUT_ONE.search(ast.unparse(test)):
            return Life.GUARDED
        if self._is_about_names(test, scope, set()) or self._asks_a_flag(test, scope):
            return Life.GUARDED
        return Life.SOMETIMES

    def _is_about_names(self, test: ast.AST, scope: NameScope, seen: set[int]) -> bool:
        """Whether the test, or what its names stand for, is about versions or about what is there."""
        if _ABOUT_NAMES.search(ast.unparse(test)):
            return True
        if len(seen) > _MOST_LOOKED_AT:
            return False
        for node in ast.walk(test):
            if not isinstance(node, ast.Name | ast.Attribute):
                continue
            bound = self.decisions.folding.binding(node, scope)
            if bound is None:
                bound = self._of_self(node, scope)
            if bound is None or id(bound[0]) in seen:
                continue
            seen.add(id(bound[0]))
            if self._binds_by_version(*bound, seen):
                return True
        return False

    def _binds_by_version(self, binding: Binding, scope: NameScope, seen: set[int]) -> bool:
        if binding.kind in {BindingKind.IMPORT, BindingKind.FROM}:
            return _ABOUT_NAMES.search(f"{binding.target} {binding.name}") is not None
        if binding.kind is BindingKind.FUNCTION:
            inner = scope.children.get(id(binding.node))
            body = (
                () if inner is None else [value for value, _ in inner.returns if value is not None]
            )
            return any(self._is_about_names(each, inner or scope, seen) for each in body)
        if isinstance(binding.node, ast.Name) and _ABOUT_NAMES.search(binding.node.id):
            return True
        return binding.value is not None and self._is_about_names(binding.value, scope, seen)

    def _of_self(
        self, node: ast.Name | ast.Attribute, scope: NameScope
    ) -> tuple[Binding, NameScope] | None:
        """What a method assigns to the attribute of `self` that the node reads; None if several do."""
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            return None
        cls: NameScope | None = scope
        while cls is not None and not cls.is_class:
            cls = cls.parent
        if cls is None or node.value.id not in {"self", "cls"}:
            return None
        assigned = cls.attributes.get(node.attr, [])
        if len(assigned) == 1:
            return assigned[0][1], assigned[0][0]
        bindings = cls.bindings.get(node.attr, [])
        return (bindings[0], cls) if len(bindings) == 1 else None

    def _asks_a_flag(self, test: ast.expr, scope: NameScope) -> bool:
        """Whether the test names a flag of a module that is true or false, as some branch there decides."""
        names = [node for node in ast.walk(test) if isinstance(node, ast.Name)]
        refs = [
            self._evaluation.value(each, scope) for each in names if is_of_module(each.id, scope)
        ]
        return any(
            isinstance(ref, UnionRef)
            and all(
                isinstance(each, ConstantRef) and isinstance(each.value, bool)
                for each in ref.options
            )
            for ref in refs
        )

    def _handler(self, node: Except, index: int, scope: NameScope) -> Life:
        names = _caught_names(node.handlers[index])
        if names & (_IMPORT_ERRORS | _BROAD) and any(
            isinstance(each, ast.Import | ast.ImportFrom)
            for statement in node.body
            for each in ast.walk(statement)
        ):
            imported = self._imports_of(node.body, scope)
            if imported is False:
                return Life.ALWAYS
            # What else such a body does may fail too, for a handler of every error.
            is_certain = not names & _BROAD or all(map(_cannot_fail, node.body))
            return Life.DEAD if imported and is_certain else Life.GUARDED
        if names & {"TypeError", "AttributeError", *_IMPORT_ERRORS}:
            return Life.GUARDED
        return Life.SOMETIMES

    def _imports_of(self, body: Sequence[ast.stmt], scope: NameScope) -> bool | None:
        """Whether all imports in these statements succeed, or are got over there; None if nobody knows."""
        states = [self._imports_in(each, scope) for each in body]
        if False in states:
            return False
        return None if None in states else True

    def _imports_in(self, node: ast.stmt, scope: NameScope) -> bool | None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            return self._import(node, scope)
        if not isinstance(node, ast.Try | ast.TryStar):
            # A call may import something when it runs.
            is_quiet = not any(isinstance(each, _CALLS) for each in ast.walk(node))
            return True if is_quiet else None
        imported = self._imports_of(node.body, scope)
        rest = self._imports_of([*node.orelse, *node.finalbody], scope)
        if imported is True:
            return rest
        handled = None
        for handler in node.handlers:
            if _caught_names(handler) & (_IMPORT_ERRORS | _BROAD):
                raises = any(isinstance(each, ast.Raise) for each in handler.body)
                handled = False if raises else self._imports_of(handler.body, scope)
                break
        else:
            handled = False
        if imported is False:
            return handled
        return handled if handled is True and rest is True else None

    def _import(self, node: ast.stmt, scope: NameScope) -> bool | None:
        """Whether an import statement succeeds; None if nobody knows."""
        if id(node) not in self._imports:
            self._imports[id(node)] = None  # an import that evaluation for itself
            states = [
                _state(self._evaluation.binding(binding, known))
                for known in (scope, scope.root())
                for binding in (
                    *(each for group in known.bindings.values() for each in group),
                    *known.stars,
                )
                if binding.node is node and binding.kind in {BindingKind.IMPORT, BindingKind.FROM}
            ]
            if False in states:
                self._imports[id(node)] = False
            elif states and None not in states:
                self._imports[id(node)] = True
        return self._imports[id(node)]


def _state(ref: object) -> bool | None:
    if isinstance(ref, AbsentRef):
        return False
    if isinstance(ref, UnknownRef):
        return True if ref.is_there else None
    return None if isinstance(ref, OutsideRef) else True


def _cannot_fail(node: ast.stmt) -> bool:
    """Whether the statement is an import, or only gives a name a constant, such as `has_feature = True`."""
    if isinstance(node, ast.Try | ast.TryStar):
        parts = [*node.body, *node.orelse, *node.finalbody]
        parts += [each for handler in node.handlers for each in handler.body]
        return all(map(_cannot_fail, parts))
    return isinstance(node, ast.Import | ast.ImportFrom) or (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and all(isinstance(each, ast.Name) for each in node.targets)
    )


def _caught_names(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"BaseException"}
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return set(map(_last_word, types))


def _matching(names: set[str], error: str) -> Caught:
    wanted = {error, "ImportError"} if error == "ModuleNotFoundError" else {error}
    if names & wanted:
        return Caught.BY_NAME
    return Caught.BROADLY if names & _BROAD else Caught.NOT


def _last_word(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]
