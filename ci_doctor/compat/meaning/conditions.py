# SPDX-License-Identifier: Apache-2.0
"""Pure. Decides branches: by versions, hasattr, signatures, constants, and imports that succeed or fail."""

import ast
import re
from typing import Final

from ci_doctor.compat.meaning.asking import Asks
from ci_doctor.compat.meaning.decisions import Decisions, is_of_module
from ci_doctor.compat.meaning.life import Caught, Life
from ci_doctor.compat.meaning.refs import AbsentRef, ConstantRef, OutsideRef, UnionRef, UnknownRef
from ci_doctor.compat.reading.guard import Except, Guard, GuardKind, Guards
from ci_doctor.compat.reading.name_scope import BindingKind, NameScope

# A test of these words may be about what the callee has. If it is not decided, nothing under it is certain.
_ABOUT_NAMES: Final = re.compile(
    r"(?i)version|signature|parameters|find_spec|has_|have_|avail|support|legacy|compat"
)
# Such a test is about one object. Behind it, not inside it, other objects are as certain as before.
_ABOUT_ONE: Final = re.compile(r"hasattr|getattr")
_IMPORT_ERRORS: Final = frozenset({"ImportError", "ModuleNotFoundError"})
_BROAD: Final = frozenset({"Exception", "BaseException"})


class Conditions:
    """Whether statements run, by the conditions around them."""

    def __init__(self, asks: Asks) -> None:
        self._asks = asks
        self.decisions = Decisions(asks)
        self._imports: dict[int, bool | None] = {}
        self._branches: dict[tuple[int, int], Life] = {}

    def runs(self, guards: Guards, scope: NameScope) -> Life:
        """The least certain of the conditions."""
        least = Life.ALWAYS
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
                outcome = self._handled(guard.node, error)
            elif guard.kind is GuardKind.SUPPRESS and isinstance(guard.node, ast.Call):
                outcome = _matching(set(map(_last_word, guard.node.args)), error)
            if outcome is not Caught.NOT:
                return outcome
        return Caught.NOT

    def _life(self, guard: Guard, scope: NameScope) -> Life:
        if guard.kind is GuardKind.TEST and isinstance(guard.node, ast.expr):
            key = (id(guard), id(scope))
            if key not in self._branches:
                # While a test is looked at, it is not decided for the names that it needs.
                self._branches[key] = Life.SOMETIMES
                self._branches[key] = self._branch(guard, guard.node, scope)
            return self._branches[key]
        if isinstance(guard.node, Except):
            if guard.kind is GuardKind.BODY:
                return self._body(guard.node, guard.index, scope)
            if guard.kind is GuardKind.HANDLER:
                return self._handler(guard.node, guard.index, scope)
            if guard.kind is GuardKind.ELSE and self._fails(guard.node.body, scope):
                return Life.DEAD
        return Life.ALWAYS

    def _branch(self, guard: Guard, test: ast.expr, scope: NameScope) -> Life:
        if _last_word(test) == "TYPE_CHECKING":
            return Life.TYPING if guard.holds else Life.ALWAYS
        decided = self.decisions.decide(test, scope)
        if decided is not None:
            return Life.ALWAYS if decided is guard.holds else Life.DEAD
        text = ast.unparse(test)
        is_about_names = _ABOUT_NAMES.search(text) or (
            not guard.is_behind and _ABOUT_ONE.search(text)
        )
        if is_about_names or self._asks_a_flag(test, scope):
            return Life.GUARDED
        return Life.SOMETIMES

    def _asks_a_flag(self, test: ast.expr, scope: NameScope) -> bool:
        """Whether the test names a flag of a module that is true or false, as some branch there decides."""
        for node in ast.walk(test):
            if isinstance(node, ast.Name) and is_of_module(node.id, scope):
                ref = self._asks.value(node, scope)
                options = ref.options if isinstance(ref, UnionRef) else ()
                if options and all(_is_flag(each) for each in options):
                    return True
        return False

    def _body(self, node: Except, index: int, scope: NameScope) -> Life:
        before = node.body[:index]
        if self._fails(before, scope):
            return Life.DEAD
        return Life.ALWAYS

    def _handler(self, node: Except, index: int, scope: NameScope) -> Life:
        names = _caught_names(node.handlers[index])
        imports = [self._import(each, scope) for each in node.body if _is_import(each)]
        if imports and names & (_IMPORT_ERRORS | _BROAD):
            if False in imports:
                return Life.ALWAYS
            only_imports = all(_is_import(each) or _cannot_fail(each) for each in node.body)
            return Life.DEAD if only_imports and None not in imports else Life.GUARDED
        if names & {"TypeError", "AttributeError", *_IMPORT_ERRORS}:
            return Life.GUARDED
        return Life.SOMETIMES

    def _fails(self, body: list[ast.stmt], scope: NameScope) -> bool:
        """Whether an import among these statements surely fails."""
        return any(_is_import(each) and self._import(each, scope) is False for each in body)

    def _import(self, node: ast.stmt, scope: NameScope) -> bool | None:
        """Whether an import statement succeeds; None if nobody knows."""
        if id(node) not in self._imports:
            self._imports[id(node)] = None  # an import that asks for itself
            self._imports[id(node)] = self._import_now(node, scope)
        return self._imports[id(node)]

    def _import_now(self, node: ast.stmt, scope: NameScope) -> bool | None:
        states: list[bool | None] = []
        for known in (scope, scope.root()):
            bindings = [each for group in known.bindings.values() for each in group]
            for binding in (*bindings, *known.stars):
                if binding.node is node and binding.kind in {BindingKind.IMPORT, BindingKind.FROM}:
                    ref = self._asks.binding(binding, known)
                    states.append(_state(ref))
        if False in states:
            return False
        return None if None in states or not states else True

    def _handled(self, node: Except, error: str) -> Caught:
        for handler in node.handlers:
            outcome = _matching(_caught_names(handler), error)
            if outcome is not Caught.NOT:
                raises = any(isinstance(each, ast.Raise) for each in handler.body)
                return Caught.NOT if raises else outcome
        return Caught.NOT


def _state(ref: object) -> bool | None:
    if isinstance(ref, AbsentRef):
        return False
    return None if isinstance(ref, UnknownRef | OutsideRef) else True


def _is_flag(ref: object) -> bool:
    return isinstance(ref, ConstantRef) and isinstance(ref.value, bool)


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _cannot_fail(node: ast.stmt) -> bool:
    """Whether the statement only gives a name a constant, such as `has_feature = True`."""
    return (
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
