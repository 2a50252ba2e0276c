# SPDX-License-Identifier: Apache-2.0
"""Pure. The conditions under which a statement runs: the branches and the exceptions around it."""

import ast
from enum import StrEnum

from msgspec import Struct

Except = ast.Try | ast.TryStar


class GuardKind(StrEnum):
    """Which part of a compound statement a line stands in."""

    TEST = "test"
    BODY = "try"
    HANDLER = "except"
    ELSE = "else"
    SUPPRESS = "suppress"
    MARK = "mark"


class Guard(Struct, frozen=True, kw_only=True, eq=False):
    """One condition.

    node: the test of an `if`, the `try`, the exceptions that a `with suppress(...)` names, a decorator
    or a call of `importorskip`, which may keep a test from running.
    holds: whether the test must be true. index: the statement of a `try` body it stands in, or the
    number of the handler. is_behind: the line stands behind an `if` that leaves the block otherwise.
    """

    kind: GuardKind
    node: ast.AST
    holds: bool = True
    index: int = 0
    is_behind: bool = False


Guards = tuple[Guard, ...]
