# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a statement runs: what versions, imports and constants decide about its guards."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final

from packaging.version import InvalidVersion, Version

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
    ConstantRef,
    Life,
    ModuleRef,
    OutsideRef,
    Ref,
    UndecidedError,
    UnionRef,
    UnknownRef,
)


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


_DEEPEST: Final = 30


class Conditions:
    """Whether statements run, by the conditions around them."""

    def __init__(self, evaluation: Asks) -> None:
        self._evaluation = evaluation
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
            # What stands in a module or a class itself runs when it is imported.
            around = None if scope.is_class else scope.parent
            marks = [] if around is None else list(_marks_around(around))
            lives = [self._mark(mark, place) for mark, place in marks]
            self._marks[key] = min(lives, default=Life.ALWAYS)
        return self._marks[key]

    def _mark(self, node: ast.AST, scope: NameScope) -> Life:
        """Whether a test runs with this decorator, or behind this `importorskip`."""
        if not isinstance(node, ast.expr):
            return Life.ALWAYS
        place = scope
        if not isinstance(node, ast.Call):
            node, place = self._source(node, scope)
        call = node if isinstance(node, ast.Call) else None
        word = last_word(node if call is None else call.func)
        if word in {"skipif", "skipIf", "skipUnless"} and call is not None:
            tests = call.args[:1] + [
                each.value for each in call.keywords if each.arg == "condition"
            ]
            # pytest evaluates a text itself.
            is_text = not tests or isinstance(getattr(tests[0], "value", None), str)
            decided = None if is_text else self._evaluation.decide(tests[0], place)
            if decided is None:
                return Life.GUARDED
            return Life.ALWAYS if decided is (word == "skipUnless") else Life.DEAD
        if word == "importorskip" and call is not None:
            return self._import_or_skip(call, place)
        if word == "skip":
            return Life.DEAD
        return Life.GUARDED if word in {"xfail", "expectedFailure"} else Life.ALWAYS

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
            wanted = Version(str(self._evaluation.stated(least[0], scope)))
            return Life.ALWAYS if Version(version) >= wanted else Life.DEAD
        except (UndecidedError, InvalidVersion):
            return Life.GUARDED

    def _source(self, node: ast.expr, scope: NameScope) -> tuple[ast.expr, NameScope]:
        """The one expression that a name, or an attribute of a module, stands for, and its scope; else the same."""
        here = node, scope
        for _ in range(_DEEPEST):
            bound = self._binding(*here)
            if bound is None or bound[0].kind is not BindingKind.VALUE or bound[0].value is None:
                break
            here = bound[0].value, bound[1]
            if not isinstance(here[0], ast.Name | ast.Attribute):
                return here
        return node, scope

    def _binding(self, node: ast.AST, scope: NameScope) -> tuple[Binding, NameScope] | None:
        """The one statement that binds a name or an attribute of a module, through imports."""
        if isinstance(node, ast.Attribute):
            owner = self._evaluation.value(node.value, scope)
            return self._in_module(owner.name, node.attr) if isinstance(owner, ModuleRef) else None
        around: NameScope | None = scope
        while around is not None and isinstance(node, ast.Name):
            if node.id in around.bindings and (around is scope or not around.is_class):
                return self._only(node.id, around)
            around = around.parent
        return None

    def _in_module(
        self, module: str, name: str, most: int = _DEEPEST
    ) -> tuple[Binding, NameScope] | None:
        read = self._evaluation.world.module(module)
        if read is None or name not in read.scope.bindings or not most:
            return None
        return self._only(name, read.scope, most)

    def _only(
        self, name: str, scope: NameScope, most: int = _DEEPEST
    ) -> tuple[Binding, NameScope] | None:
        dead = {Life.DEAD, Life.TYPING}
        live = [each for each in scope.bindings[name] if self.runs(each.guards, scope) not in dead]
        if len(live) != 1 or live[0].kind is not BindingKind.FROM:
            return (live[0], scope) if len(live) == 1 else None
        module = self._evaluation.absolute(live[0], scope)
        return None if module is None else self._in_module(module, live[0].name, most - 1)

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
        if not isinstance(guard.node, Except):
            return Life.ALWAYS
        if guard.kind is GuardKind.HANDLER:
            return self._handler(guard.node, guard.index, scope)
        is_body = guard.kind is GuardKind.BODY
        before = guard.node.body[: guard.index if is_body else None]
        return Life.DEAD if self._imports_of(before, scope) is False else Life.ALWAYS

    def _branch(self, guard: Guard, test: ast.expr, scope: NameScope) -> Life:
        if _last_word(test) == "TYPE_CHECKING":
            return Life.TYPING if guard.holds else Life.ALWAYS
        decided = self._evaluation.decide(test, scope)
        if decided is not None:
            return Life.ALWAYS if decided is guard.holds else Life.DEAD
        is_about_one = not guard.is_behind and _ABOUT_ONE.search(ast.unparse(test))
        if is_about_one or self._is_about_names(test, scope, set()):
            return Life.GUARDED
        # A flag of a module that is true or false, as some branch there decides.
        names = [node for node in ast.walk(test) if isinstance(node, ast.Name)]
        refs = [
            self._evaluation.value(each, scope) for each in names if is_of_module(each.id, scope)
        ]
        return Life.GUARDED if any(map(_is_flag, refs)) else Life.SOMETIMES

    def _is_about_names(self, test: ast.AST, scope: NameScope, seen: set[int]) -> bool:
        """Whether the test, or what its names stand for, is about versions or about what is there."""
        if _ABOUT_NAMES.search(ast.unparse(test)):
            return True
        for node in ast.walk(test) if len(seen) <= _MOST_LOOKED_AT else ():
            bound = self._binding(node, scope) or _of_self(node, scope)
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
            returns = () if inner is None else inner.returns
            return any(
                value is not None and self._is_about_names(value, inner or scope, seen)
                for value, _ in returns
            )
        if isinstance(binding.node, ast.Name) and _ABOUT_NAMES.search(binding.node.id):
            return True
        return binding.value is not None and self._is_about_names(binding.value, scope, seen)

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
        handled: bool | None = False
        for handler in node.handlers:
            if _caught_names(handler) & (_IMPORT_ERRORS | _BROAD):
                if not any(isinstance(each, ast.Raise) for each in handler.body):
                    handled = self._imports_of(handler.body, scope)
                break
        is_certain = imported is False or (handled and rest)
        return handled if is_certain else None

    def _import(self, node: ast.stmt, scope: NameScope) -> bool | None:
        """Whether an import statement succeeds; None if nobody knows."""
        if id(node) not in self._imports:
            self._imports[id(node)] = None  # an import that evaluation for itself
            refs = [
                self._evaluation.binding(binding, known)
                for known in (scope, scope.root())
                for group in (*known.bindings.values(), known.stars)
                for binding in group
                if binding.node is node and binding.kind in {BindingKind.IMPORT, BindingKind.FROM}
            ]
            is_known = not any(
                isinstance(ref, OutsideRef) or (isinstance(ref, UnknownRef) and not ref.is_there)
                for ref in refs
            )
            if any(isinstance(ref, AbsentRef) for ref in refs):
                self._imports[id(node)] = False
            elif refs and is_known:
                self._imports[id(node)] = True
        return self._imports[id(node)]


def _marks_around(scope: NameScope) -> Iterator[tuple[ast.AST, NameScope]]:
    """The decorators of the classes from `scope` outwards, and what `pytestmark` lists there."""
    around: NameScope | None = scope
    while around is not None:
        for guard in around.marks:
            yield guard.node, around
        for binding in around.bindings.get("pytestmark", ()):
            value = binding.value
            elements = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
            for element in filter(None, elements):
                yield element, around
        around = around.parent


def _of_self(node: ast.AST, scope: NameScope) -> tuple[Binding, NameScope] | None:
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


def _is_flag(ref: Ref) -> bool:
    return isinstance(ref, UnionRef) and all(
        isinstance(each, ConstantRef) and isinstance(each.value, bool) for each in ref.options
    )


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
