# SPDX-License-Identifier: Apache-2.0
"""Pure. Measures one Python source text: its size, its density, its comments.

It counts two kinds of lines. A *filled line* is neither blank nor a comment alone; docstrings
count. A *code line* is a filled line outside docstrings. Density is measured against filled lines,
because docstrings are syntax nodes too, and size against code lines.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable
from typing import NamedTuple

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.Assert,
    ast.match_case,
)
_SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:|pylint:|ruff:|ty:|mypy:|pyright:)")
_LICENCE = re.compile(r"#\s*SPDX-")
_LAYOUT = frozenset(
    {
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
)


class Function(NamedTuple):
    """A function's code lines, and its cyclomatic complexity with comprehensions counted."""

    lines: int
    complexity: int


class Source(NamedTuple):
    """The figures of one module; `comments` excludes suppressions and the licence line."""

    code_lines: int
    filled_lines: int
    nodes: int
    comprehensions: int
    conditionals: int
    comments: int
    suppressions: int
    functions: tuple[Function, ...]
    classes: tuple[str, ...]


def read_source(text: str) -> Source:
    """Measure `text`. Raises SyntaxError if it is not Python of this interpreter's version."""
    nodes = list(ast.walk(ast.parse(text)))
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    filled = _filled_lines(text, tokens)
    code = filled - _docstring_lines(nodes)
    comments, suppressions = _comments(tokens)
    comprehensions = conditionals = 0
    functions: list[Function] = []
    classes: list[str] = []
    for node in nodes:
        comprehensions += isinstance(node, _COMPREHENSIONS)
        conditionals += isinstance(node, ast.IfExp)
        if isinstance(node, _FUNCTIONS):
            functions.append(Function(len(_lines_of(node) & code), complexity(node)))
        elif isinstance(node, ast.ClassDef):
            classes.append(node.name)
    return Source(
        code_lines=len(code),
        filled_lines=len(filled),
        nodes=len(nodes),
        comprehensions=comprehensions,
        conditionals=conditionals,
        comments=comments,
        suppressions=suppressions,
        functions=tuple(functions),
        classes=tuple(classes),
    )


def total(sources: Iterable[Source]) -> Source:
    """One source with the sum of every figure, and with all functions and classes."""
    code_lines = filled_lines = nodes = 0
    comprehensions = conditionals = comments = suppressions = 0
    functions: list[Function] = []
    classes: list[str] = []
    for source in sources:
        code_lines += source.code_lines
        filled_lines += source.filled_lines
        nodes += source.nodes
        comprehensions += source.comprehensions
        conditionals += source.conditionals
        comments += source.comments
        suppressions += source.suppressions
        functions += source.functions
        classes += source.classes
    return Source(
        code_lines=code_lines,
        filled_lines=filled_lines,
        nodes=nodes,
        comprehensions=comprehensions,
        conditionals=conditionals,
        comments=comments,
        suppressions=suppressions,
        functions=tuple(functions),
        classes=tuple(classes),
    )


def complexity(function: ast.AST) -> int:
    """McCabe's figure: one, and one for each branch.

    Each `and` or `or` counts too, and each loop and each condition of a comprehension. Linters
    leave these out, so a dense comprehension passes their limit.
    """
    total = 1
    for node in ast.walk(function):
        if isinstance(node, _BRANCHES):
            total += 1
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            total += 1 + len(node.ifs)
    return total


def _comments(tokens: list[tokenize.TokenInfo]) -> tuple[int, int]:
    """How many comments are for readers, and how many are suppressions."""
    comments = suppressions = 0
    for token in tokens:
        if token.type != tokenize.COMMENT or _LICENCE.match(token.string):
            continue
        if _SUPPRESSION.search(token.string):
            suppressions += 1
        else:
            comments += 1
    return comments, suppressions


def _filled_lines(text: str, tokens: list[tokenize.TokenInfo]) -> set[int]:
    """The numbers of the lines that hold a token; blank lines inside a string do not count."""
    lines = text.splitlines()
    filled: set[int] = set()
    for token in tokens:
        if token.type in _LAYOUT or token.type == tokenize.COMMENT:
            continue
        filled.update(range(token.start[0], token.end[0] + 1))
    return {number for number in filled if lines[number - 1].strip()}


def _docstring_lines(nodes: list[ast.AST]) -> set[int]:
    lines: set[int] = set()
    for node in nodes:
        if not isinstance(node, (ast.Module, ast.ClassDef, *_FUNCTIONS)):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            lines |= _lines_of(node.body[0])
    return lines


def _lines_of(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
