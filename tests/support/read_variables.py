# SPDX-License-Identifier: Apache-2.0
"""Reads the source: which environment variables its lines read, as far as their names stand in the source."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.support.cli import ROOT

_PACKAGE = ROOT / "ci_doctor"
_HOOKS = ROOT / "buildkite_plugins" / "ci-doctor"
_NAME = re.compile(r"_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
# A text that begins so is the name of a variable, wherever it stands.
_PREFIXES = ("CI_DOCTOR_", "_CI_DOCTOR_", "BUILDKITE", "GITHUB_", "XDG_", "NO_COLOR")
_MAY_READ = re.compile(rf"environ|getenv|[\"'](?:{'|'.join(_PREFIXES)})")
_ENVIRONMENT = re.compile(r"env", re.IGNORECASE)
_METHODS = {"get", "pop", "getenv"}
_DEFAULTED = re.compile(r"\$\{(_?CI_DOCTOR_[A-Z_]+)(?::?[-?+=])")


def read_by_python() -> dict[str, list[str]]:
    """Variables that the package reads, with the modules that do."""
    sources = {path: path.read_text() for path in sorted(_PACKAGE.rglob("*.py"))}
    # Most modules read none, and a parser needs seconds for all of them.
    trees = {path: ast.parse(text) for path, text in sources.items() if _MAY_READ.search(text)}
    shared = _constants(trees.values())
    read: dict[str, set[str]] = defaultdict(set)
    for path, tree in trees.items():
        name = str(path.relative_to(_PACKAGE))
        # A module's own constant stands before one of another module with the same name.
        constants = {**shared, **_constants([tree])}
        for variable in _read_in(tree, constants):
            if _NAME.fullmatch(variable):
                read[variable].add(name)
    return {variable: sorted(names) for variable, names in read.items()}


def read_by_hooks() -> set[str]:
    """Variables that the plugin's shell programs take from outside: those with a value for their absence."""
    files = (*(_HOOKS / "hooks").iterdir(), *(_HOOKS / "lib").glob("*.bash"))
    return {name for path in files for name in _DEFAULTED.findall(path.read_text())}


def _read_in(tree: ast.AST, constants: dict[str, set[str]]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and str(node.value).startswith(_PREFIXES):
            yield str(node.value)
        key = _key(node)
        if key is not None:
            yield from _texts(key, constants)


def _key(node: ast.AST) -> ast.expr | None:
    """What `node` looks up in an environment."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=method), args=[first, *_]):
            is_read = method in _METHODS and _is_environment(owner, method)
            return first if is_read else None
        case ast.Subscript(value=owner, slice=key) if _is_environment(owner):
            return key
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
            return left if _is_environment(right) else None
        case _:
            return None


def _is_environment(owner: ast.expr, method: str = "") -> bool:
    """`os.environ`, `environment`, `context.environ`; `os` of `os.getenv`."""
    match owner:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _ENVIRONMENT.search(f"{name} {method}") is not None
        case _:
            return False


def _texts(node: ast.expr, constants: dict[str, set[str]]) -> set[str]:
    match node:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return constants.get(name, set())
        case _:
            return set()


def _constants(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """Texts that modules give a name to; several modules may use one name."""
    constants: dict[str, set[str]] = defaultdict(set)
    for tree in trees:
        for node in tree.body:
            if not isinstance(node, ast.Assign | ast.AnnAssign):
                continue
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            value = node.value
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                constants[target.id].add(str(value.value))
    return dict(constants)
