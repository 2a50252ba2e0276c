# SPDX-License-Identifier: Apache-2.0
"""Pure. A Python program as its rules see it, and its handlers of exceptions."""

import ast
import re
import warnings
from collections.abc import Iterator
from functools import cached_property

from ci_doctor.lint.lint_rule import LintRule, Place, Violation, excerpt_of

# Lines end here for `ast`; str.splitlines knows more ends, such as a form feed.
_LINE_ENDS = re.compile("\r\n|\r|\n")

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class PythonProgram:
    """A program's syntax tree. Each node knows the one that it stands in."""

    def __init__(self, file: str, text: str, tree: ast.Module) -> None:
        self.file = file
        self.tree = tree
        self.lines = _LINE_ENDS.split(text)
        self.nodes: list[ast.AST] = []
        self._parents: dict[ast.AST, ast.AST] = {}
        pending: list[ast.AST] = [tree]
        while pending:
            node = pending.pop()
            self.nodes.append(node)
            children = list(ast.iter_child_nodes(node))
            for child in children:
                self._parents[child] = node
            pending.extend(reversed(children))

    @cached_property
    def calls(self) -> list[ast.Call]:
        """All calls, as they stand in the text."""
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    @cached_property
    def imported(self) -> dict[str, str]:
        """What a name means that an import made: `run` is `subprocess.run`, `np` is `numpy`."""
        names: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    names[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        return names

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node in which `node` stands; None for the module."""
        return self._parents.get(node)

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes in which `node` stands, the nearest first."""
        above = self._parents.get(node)
        while above is not None:
            yield above
            above = self._parents.get(above)

    def scope(self, node: ast.AST) -> ast.AST:
        """The function or the module in which `node` runs."""
        for above in self.parents(node):
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module):
                return above
        return self.tree

    def dotted(self, node: ast.expr) -> str:
        """The full name that an expression means, such as `subprocess.run`; empty for others."""
        words: list[str] = []
        while isinstance(node, ast.Attribute):
            words.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        words.append(self.imported.get(node.id, node.id))
        return ".".join(reversed(words))

    def violation(
        self,
        rule: LintRule,
        node: ast.stmt | ast.expr | ast.excepthandler,
        summary: str,
        *,
        remedy: str | None = None,
        related: tuple[ast.stmt | ast.expr | ast.excepthandler, ...] = (),
    ) -> Violation:
        """A violation at the first line of `node`."""
        return Violation(
            rule=rule,
            place=Place(file=self.file, line=node.lineno, end_line=node.lineno),
            summary=summary,
            excerpt=excerpt_of(self.lines[node.lineno - 1]),
            remedy=remedy,
            related=tuple(self.place(each) for each in related),
        )

    def place(self, node: ast.stmt | ast.expr | ast.excepthandler) -> Place:
        """The lines of `node`."""
        return Place(file=self.file, line=node.lineno, end_line=node.end_lineno or node.lineno)


def parse(file: str, text: str) -> PythonProgram:
    """The program in `text`. Raises SyntaxError if Python refuses it."""
    with warnings.catch_warnings():
        # An invalid escape in somebody's string is their linter's matter.
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text, file)
        except (RecursionError, MemoryError) as error:
            raise SyntaxError("it is nested too deeply to be parsed") from error
        except ValueError as error:
            raise SyntaxError(str(error)) from error
    return PythonProgram(file, text, tree)


def inside(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes that run when `body` does: not those of functions and classes defined in it."""
    pending: list[ast.AST] = list(reversed(body))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _SCOPES):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))


# What a handler of an exception catches, and whether it leaves a trace that decides.

_BROAD = {"Exception", "BaseException", "builtins.Exception", "builtins.BaseException"}
# Talk: it is read by a person, and by no gate.
_TALK = ("print", "logging.", "logger.", "log.", "warnings.warn", "traceback.print_", "time.sleep")
_TALKING_METHODS = {"debug", "info", "warning", "warn", "error", "exception", "critical", "log"}


def caught(program: PythonProgram, handler: ast.ExceptHandler) -> list[str]:
    """The names of what a handler catches; empty if it catches everything."""
    kind = handler.type
    if kind is None:
        return []
    elements = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return [program.dotted(element) for element in elements]


def is_broad(program: PythonProgram, handler: ast.ExceptHandler) -> bool:
    """Whether it catches every error."""
    names = caught(program, handler)
    return not names or bool(_BROAD & set(names))


def is_silent(program: PythonProgram, handler: ast.ExceptHandler) -> bool:
    """Whether its body only talks, waits or goes on, so that nothing later knows of the error."""
    return all(says_nothing(program, statement) for statement in handler.body)


def says_nothing(program: PythonProgram, statement: ast.stmt) -> bool:
    """Whether a statement only talks, waits or goes on."""
    if isinstance(statement, ast.Pass | ast.Continue):
        return True
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    if isinstance(value, ast.Await):
        value = value.value
    if isinstance(value, ast.Constant):
        return True
    return isinstance(value, ast.Call) and _is_talk(program, value)


def _is_talk(program: PythonProgram, call: ast.Call) -> bool:
    name = program.dotted(call.func)
    if name.startswith(_TALK) or name == "asyncio.sleep":
        return True
    return isinstance(call.func, ast.Attribute) and call.func.attr in _TALKING_METHODS


def is_try_again(program: PythonProgram, node: ast.Try) -> bool:
    """Whether a loop tries until it succeeds: then a caught error decides nothing by itself.

    Such a loop has a `return` or a `break` that the error jumps over.
    """
    for above in program.parents(node):
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return False
        if isinstance(above, ast.For | ast.While | ast.AsyncFor):
            return any(
                isinstance(node, ast.Return | ast.Break) for node in inside(above.body)
            ) or isinstance(above, ast.While)
    return False
