# SPDX-License-Identifier: Apache-2.0
"""Pure. The names, imports and calls of a Python script, from its syntax tree."""

import ast
from collections.abc import Collection, Iterator


def constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Module-level names that are bound exactly once: their value is certain."""
    bindings: dict[str, list[ast.expr]] = {}
    for statement in tree.body:
        if not isinstance(statement, ast.Assign):
            continue
        for target in statement.targets:
            if isinstance(target, ast.Name):
                bindings.setdefault(target.id, []).append(statement.value)
    return {name: values[0] for name, values in bindings.items() if len(values) == 1}


def imported_modules(tree: ast.Module) -> Iterator[str]:
    """The top-level names of the modules that the script imports anywhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def calls_of(
    tree: ast.Module, modules: Collection[str], function: str, *spellings: str
) -> list[ast.Call]:
    """The calls of `function` of one of `modules`, by an imported name or one of `spellings`."""
    names = {*spellings, *_imported_names(tree, modules, function)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if ast.unparse(call.func) in names]


def _imported_names(tree: ast.Module, modules: Collection[str], function: str) -> Iterator[str]:
    """How the script may spell `function`: `module.function`, or a name that it imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = modules
            ending = f".{function}"
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            wanted = {function}
            ending = ""
        else:
            continue
        for alias in node.names:
            if alias.name in wanted:
                yield f"{alias.asname or alias.name}{ending}"
