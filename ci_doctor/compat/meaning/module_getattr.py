# SPDX-License-Identifier: Apache-2.0
"""Pure. What a module's `__getattr__` (PEP 562) does with one name: gives it, or raises AttributeError."""

import ast
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from ci_doctor.compat.meaning.asking import Asks
from ci_doctor.compat.meaning.folding import Folding, UndecidedError
from ci_doctor.compat.meaning.refs import AbsentRef, ModuleRef
from ci_doctor.compat.reading.control_flow import last_word
from ci_doctor.compat.reading.name_scope import NameScope


class Answer(StrEnum):
    """One way through the function."""

    GIVES = "gives a value"
    RAISES = "raises AttributeError"
    GOES_ON = "goes on behind the statement"
    REFUSES = "raises AttributeError if nothing else gives it"
    UNDECIDED = "the source does not decide it"


_OPEN: Final = frozenset({Answer.UNDECIDED})
_ON: Final = frozenset({Answer.GOES_ON})


class ModuleGetattr:
    """Follows the statements of such a function."""

    def __init__(self, asks: Asks, folding: Folding) -> None:
        self._asks = asks
        self._folding = folding
        self._refuses = False

    def answer(self, scope: NameScope, name: str) -> Answer:
        """What the `__getattr__` of the module of `scope` does for `name`."""
        bindings = scope.bindings.get("__getattr__", [])
        node = bindings[-1].node if bindings else None
        if len(bindings) != 1 or not isinstance(node, ast.FunctionDef) or len(node.args.args) != 1:
            return Answer.UNDECIDED
        names = {node.args.args[0].arg: name}
        self._refuses = False
        ways = self._block(node.body, scope.children[id(node)], names)
        if ways == {Answer.RAISES}:
            return Answer.RAISES
        if ways <= {Answer.GIVES, Answer.GOES_ON}:  # at its end it returns None
            return Answer.GIVES
        return Answer.REFUSES if self._refuses else Answer.UNDECIDED

    def _block(
        self, body: Sequence[ast.stmt], scope: NameScope, names: dict[str, str]
    ) -> frozenset[Answer]:
        ways: set[Answer] = set()
        for statement in body:
            step = self._statement(statement, scope, names)
            ways |= step - _ON
            if Answer.GOES_ON not in step:
                return frozenset(ways)
        return frozenset({*ways, Answer.GOES_ON})

    def _statement(  # noqa: PLR0911 - a case per form
        self, node: ast.stmt, scope: NameScope, names: dict[str, str]
    ) -> frozenset[Answer]:
        match node:
            case ast.If():
                return self._if(node, scope, names)
            case ast.Raise():
                called = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                is_absence = called is not None and last_word(called) == "AttributeError"
                return frozenset({Answer.RAISES if is_absence else Answer.UNDECIDED})
            case ast.Return():
                return frozenset({self._returned(node.value, scope, names)})
            case ast.Try():
                return self._try(node, scope, names)
            case ast.With():
                return self._block(node.body, scope, names)
            case ast.Assign() | ast.AnnAssign() | ast.Expr() | ast.Import() | ast.ImportFrom():
                # A warning, a message, the import of what is returned.
                return _ON
            case ast.Pass() | ast.Global():
                return _ON
            case _:
                return frozenset({Answer.UNDECIDED, Answer.GOES_ON})

    def _try(self, node: ast.Try, scope: NameScope, names: dict[str, str]) -> frozenset[Answer]:
        """`try: value = TABLE[name]`, and any other."""
        first = node.body[0]
        value = first.value if isinstance(first, ast.Assign | ast.Return) else None
        held: bool | None = None
        if isinstance(value, ast.Subscript):
            try:
                held = self._folding.contains(value.slice, value.value, scope, names)
            except UndecidedError:
                held = None
        ways: set[Answer] = set()
        if held is not False:
            ways |= self._block([*node.body, *node.orelse], scope, names)
        if held is not True:
            for handler in node.handlers:
                ways |= self._block(handler.body, scope, names)
        if held is None and Answer.GIVES in ways:
            ways = ways - {Answer.GIVES} | _OPEN
        return frozenset(ways)

    def _if(self, node: ast.If, scope: NameScope, names: dict[str, str]) -> frozenset[Answer]:
        decided = self._test(node.test, scope, names)
        ways: set[Answer] = set()
        if decided is not False:
            ways |= self._block(node.body, scope, names)
        # A table of names that are gone holds it.
        self._refuses = self._refuses or (decided is True and Answer.RAISES in ways)
        if decided is not True:
            ways |= self._block(node.orelse, scope, names)
        if decided is None and Answer.GIVES in ways:
            ways = ways - {Answer.GIVES} | _OPEN
        return frozenset(ways)

    def _test(self, test: ast.expr, scope: NameScope, names: dict[str, str]) -> bool | None:
        """Whether a test about the name is true."""
        match test:
            case ast.UnaryOp(op=ast.Not()):
                inner = self._test(test.operand, scope, names)
                return None if inner is None else not inner
            case ast.BoolOp():
                is_and = isinstance(test.op, ast.And)
                parts = [self._test(each, scope, names) for each in test.values]
                if (not is_and) in parts:
                    return not is_and
                return None if None in parts else is_and
            case ast.Compare(ops=[op], comparators=[right]):
                return self._compared(test.left, op, right, scope, names)
            case _:
                return self._truth(test, scope, names)

    def _truth(self, test: ast.expr, scope: NameScope, names: dict[str, str]) -> bool | None:
        try:
            return bool(self._folding.value(test, scope, names))
        except UndecidedError:
            return None

    def _compared(
        self,
        left: ast.expr,
        op: ast.cmpop,
        right: ast.expr,
        scope: NameScope,
        names: dict[str, str],
    ) -> bool | None:
        try:
            if isinstance(op, ast.In | ast.NotIn):
                held = self._folding.contains(left, right, scope, names)
                return held is isinstance(op, ast.In)
            same = self._folding.value(left, scope, names) == self._folding.value(
                right, scope, names
            )
        except UndecidedError:
            return None
        if isinstance(op, ast.Eq | ast.NotEq):
            return same is isinstance(op, ast.Eq)
        return None

    def _returned(self, value: ast.expr | None, scope: NameScope, names: dict[str, str]) -> Answer:
        if not isinstance(value, ast.Call) or last_word(value.func) != "getattr":
            return Answer.GIVES if not isinstance(value, ast.Call) else Answer.UNDECIDED
        if len(value.args) != 2:
            return Answer.UNDECIDED
        owner = self._asks.value(value.args[0], scope)
        try:
            name = self._folding.value(value.args[1], scope, names)
        except UndecidedError:
            return Answer.UNDECIDED
        if not isinstance(owner, ModuleRef) or not isinstance(name, str):
            return Answer.UNDECIDED
        is_absent = isinstance(self._asks.member(owner.name, name), AbsentRef)
        return Answer.RAISES if is_absent else Answer.UNDECIDED
