# SPDX-License-Identifier: Apache-2.0
"""Pure. The calls in statements, in the order in which they run, and where blocks end."""

import ast
from collections.abc import Iterator, Sequence

# A call, and whether its result is awaited at once.
CallInOrder = tuple[ast.Call, bool]
_ENDING_CALLS = frozenset({"sys.exit", "exit", "quit", "os._exit", "os.abort"})

_INNER = (
    ast.Attribute,
    ast.Await,
    ast.BinOp,
    ast.BoolOp,
    ast.Call,
    ast.Compare,
    ast.Dict,
    ast.DictComp,
    ast.FormattedValue,
    ast.GeneratorExp,
    ast.IfExp,
    ast.JoinedStr,
    ast.Lambda,
    ast.List,
    ast.ListComp,
    ast.NamedExpr,
    ast.Set,
    ast.SetComp,
    ast.Slice,
    ast.Starred,
    ast.Subscript,
    ast.Tuple,
    ast.UnaryOp,
    ast.Yield,
    ast.YieldFrom,
    ast.comprehension,
    ast.keyword,
)


class CallIndex:
    """The calls in expressions, each computed once. Keeps the nodes alive."""

    def __init__(self) -> None:
        self._calls: dict[ast.expr, list[CallInOrder]] = {}

    def calls_of(self, expression: ast.expr) -> list[CallInOrder]:
        """Arguments before the call that takes them; nothing from within a lambda."""
        if expression not in self._calls:
            calls: list[CallInOrder] = []
            _add_calls(expression, calls, is_awaited=False)
            self._calls[expression] = calls
        return self._calls[expression]


def _add_calls(node: ast.AST, calls: list[CallInOrder], *, is_awaited: bool) -> None:
    if isinstance(node, ast.Lambda):
        return
    for child in children_of(node):
        _add_calls(child, calls, is_awaited=isinstance(node, ast.Await))
    if isinstance(node, ast.Call):
        calls.append((node, is_awaited))


def children_of(node: ast.AST) -> list[ast.AST]:
    """As ast.iter_child_nodes, without names and constants: they hold nothing, and are half."""
    nodes: list[ast.AST] = []
    for field in node._fields:
        value = getattr(node, field, None)
        if isinstance(value, list):
            nodes += [each for each in value if isinstance(each, _INNER)]
        elif isinstance(value, _INNER):
            nodes.append(value)
    return nodes


def expressions_of(node: ast.stmt) -> Iterator[ast.expr]:
    """The expressions that a statement evaluates itself, without those of its blocks."""
    for _, value in ast.iter_fields(node):
        if isinstance(value, ast.expr):
            yield value
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, ast.expr))


def ends(body: Sequence[ast.stmt]) -> bool:
    """Whether what follows the block does not run after it."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.Return | ast.Raise | ast.Continue | ast.Break):
        return True
    is_call = isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)
    return is_call and ast.unparse(last.value.func) in _ENDING_CALLS  # type: ignore[attr-defined]
