# SPDX-License-Identifier: Apache-2.0
"""Pure. The modules of a repository as syntax trees, found by the names that others import."""

import ast
import warnings
from collections.abc import Mapping

from msgspec import Struct


class ModuleSource(Struct, frozen=True, kw_only=True):
    """A parsed file: its imports, as the local name of each, and where it leads (module, name)."""

    file: str
    tree: ast.Module
    imports: dict[str, tuple[str, str]]


class ModuleTable:
    """Every Python file that was read; one is parsed when it is first asked for."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._parsed: dict[str, ModuleSource | None] = {}
        self._by_ending: dict[str, list[str]] = {}
        for file in sorted(texts, key=len):
            self._by_ending.setdefault(file.rpartition("/")[2], []).append(file)

    @property
    def files(self) -> Mapping[str, str]:
        """The text of each file."""
        return self._texts

    def module(self, file: str) -> ModuleSource | None:
        """The file as a tree; None if it is not there, or no Python of this interpreter."""
        if file not in self._parsed:
            self._parsed[file] = _parsed(file, self._texts.get(file))
        return self._parsed[file]

    def named(self, dotted: str, near: str = "") -> ModuleSource | None:
        """The module of a dotted name, the one nearest to the file `near` if several fit."""
        path = dotted.replace(".", "/")
        fitting: list[str] = []
        for ending in (f"{path}.py", f"{path}/__init__.py"):
            named = self._by_ending.get(ending.rpartition("/")[2], ())
            fitting += [name for name in named if f"/{name}".endswith(f"/{ending}")]
        if not fitting:
            return None
        fitting.sort(key=lambda file: (-_shared(file, near), len(file)))
        return self.module(fitting[0])


def _shared(one: str, other: str) -> int:
    """How many directories two files have in common."""
    count = 0
    for left, right in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if left != right:
            break
        count += 1
    return count


def _parsed(file: str, text: str | None) -> ModuleSource | None:
    if text is None:
        return None
    try:
        with warnings.catch_warnings():
            # An odd escape in somebody's string is not ours to report.
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return ModuleSource(file=file, tree=tree, imports=_imports(tree, file))


def _imports(tree: ast.Module, file: str) -> dict[str, tuple[str, str]]:
    names: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name] = (alias.name, "")
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, file)
            for alias in node.names:
                names[alias.asname or alias.name] = (module, alias.name)
    return names


def _absolute(node: ast.ImportFrom, file: str) -> str:
    """The module of an import, a relative one by the directory of its file."""
    if not node.level:
        return node.module or ""
    parts = file.split("/")[: -node.level]
    if node.module:
        parts.append(node.module)
    return ".".join(parts)
