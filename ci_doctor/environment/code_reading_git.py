# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a program's text takes a version from git tags, and through which tool."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.environment.script_syntax import imported_modules

GIT_DESCRIBE: Final = "git describe"

# Modules whose purpose is to read versions from a repository, or to read repositories.
TOOL_MODULES: Final = {
    "setuptools_scm": "setuptools-scm",
    "vcs_versioning": "setuptools-scm",
    "hatch_vcs": "hatch-vcs",
    "versioneer": "versioneer",
    "versioningit": "versioningit",
    "dunamai": "dunamai",
    "setuptools_git_versioning": "setuptools-git-versioning",
    "poetry_dynamic_versioning": "poetry-dynamic-versioning",
    "uv_dynamic_versioning": "uv-dynamic-versioning",
    "pbr": "pbr",
    "miniver": "miniver",
    "git": "GitPython",
    "pygit2": "pygit2",
    "dulwich": "dulwich",
}
# Commands that answer with tags.
_READS_TAGS: Final = re.compile(r"\b(describe|for-each-ref|show-ref|ls-remote|tag)\b")
_COMMAND: Final = re.compile(r"\bgit\b[^;&|\n]*\b(describe|for-each-ref|show-ref|ls-remote|tag)\b")


def git_reader(source: str) -> str | None:
    """The tool by which the Python text `source` reads tags (GIT_DESCRIBE for git itself).

    None if it does not. A text that is not Python is searched for the words of a git command.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return git_command(source)
    for module in imported_modules(tree):
        if module in TOOL_MODULES:
            return TOOL_MODULES[module]
    words = list(_strings(tree))
    if any(_COMMAND.search(word) for word in words):
        return GIT_DESCRIBE
    # ["git", "describe"], or run_git("describe") with the program's name elsewhere.
    if "git" in words and any(_READS_TAGS.fullmatch(word) for word in words):
        return GIT_DESCRIBE
    return None


def git_command(text: str) -> str | None:
    """GIT_DESCRIBE if `text`, of any language, holds a git command that answers with tags."""
    # 'git', 'describe' in a list is one command too.
    joined = re.sub(r"[\"',\[\]()]", " ", text)
    return GIT_DESCRIBE if _COMMAND.search(joined) else None


def _strings(tree: ast.Module) -> Iterator[str]:
    """The strings of a program without its docstrings, which may describe anything."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def literal_name(source: str, name: str) -> bool:
    """Whether the Python text `source` binds `name` at its top level to a literal only."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    values = list(_values(tree, name))
    return bool(values) and all(_is_literal(value) for value in values)


def _values(tree: ast.Module, name: str) -> Iterator[ast.expr]:
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets: list[ast.expr] = [statement.target]
            value = statement.value
        elif isinstance(statement, ast.Assign):
            targets = statement.targets
            value = statement.value
        else:
            continue
        if any(isinstance(each, ast.Name) and each.id == name for each in targets):
            yield value


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True
