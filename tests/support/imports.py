# SPDX-License-Identifier: Apache-2.0
"""Reads source files: which modules each module of the package imports, late imports included."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ci_doctor"


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    by_name = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name != "_version.py":
            parts = path.relative_to(ROOT).with_suffix("").parts
            by_name[".".join(parts).removesuffix(".__init__")] = path
    return by_name


@cache
def tree_of(name: str) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


def first_paragraph(name: str) -> str:
    """The first paragraph of a module's docstring, in one line."""
    docstring = ast.get_docstring(tree_of(name)) or ""
    return " ".join(docstring.partition("\n\n")[0].split())


@cache
def imports_of(name: str) -> frozenset[str]:
    """What a module imports when it runs, by dotted name: of the package the modules, of others the top package.

    Imports under `if TYPE_CHECKING:` run nowhere and do not count. Importing a module imports the packages around it.
    """
    imported: set[str] = set()
    for node in _running(tree_of(name).body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                imported |= _resolved(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                imported |= _resolved(f"{node.module}.{alias.name}", node.module)
    return frozenset(imported - {name})


def _running(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes below `body` that a run could come to."""
    for statement in body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            yield from _running(statement.orelse)
            continue
        yield statement
        nested = [each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.stmt)]
        for handler in ast.iter_child_nodes(statement):
            if isinstance(handler, ast.ExceptHandler | ast.match_case):
                nested += handler.body
        yield from _running(nested)


def _resolved(*candidates: str) -> set[str]:
    """The module that the first known candidate names; else the top package of a foreign one."""
    for candidate in candidates:
        if candidate in modules():
            return {candidate, *_parents(candidate)}
    return {candidates[-1].partition(".")[0]}


def _parents(name: str) -> Iterator[str]:
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def path_to(name: str, forbidden: frozenset[str]) -> list[str]:
    """The shortest chain of imports from a module to one of `forbidden`; empty if there is none."""
    chains = [[name]]
    visited = {name}
    for chain in chains:
        for imported in sorted(imports_of(chain[-1])):
            if imported in forbidden:
                return [*chain, imported]
            if imported in modules() and imported not in visited:
                visited.add(imported)
                chains.append([*chain, imported])
    return []


def file_imports(name: str) -> set[str]:
    """The modules of the package that a file names in its imports, those for type checkers included."""
    named: set[str] = set()
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                candidates = (f"{node.module}.{alias.name}", node.module)
                named.update([each for each in candidates if each in modules()][:1])
    return named - {name}
