# SPDX-License-Identifier: Apache-2.0
"""Reads a project's files: the code that a build runs to get a version, and whether it reads tags."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from ci_doctor.environment.project import PackagingFiles, constants, imported_modules, table

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


# Its arguments, up to a line that ends with a parenthesis.
_MESON_PROJECT = re.compile(r"\bproject\s*\((.*?)\)\s*$", re.DOTALL | re.MULTILINE)
_MESON_TOOL = re.compile(r"setuptools_scm|versioneer|dunamai|versioningit")
_SCRIPT = re.compile(r"'([^']+\.(?:py|sh))'")


class VersionCode(Struct, frozen=True, kw_only=True):
    """Code that computes a version from git: `tool` is what it reads tags with."""

    file: Path
    tool: str


def version_code(files: PackagingFiles) -> VersionCode | None:
    """The first file that computes the version and reads tags; None if there is none."""
    return _meson_code(files) or _first_reader(_candidates(files))


def code_of_attribute(files: PackagingFiles, attribute: str) -> VersionCode | None:
    """The code behind `attr = "package.module.name"`, unless a literal stands there.

    setuptools takes a literal from the syntax tree and imports the module for anything else
    (setuptools.config.expand.read_attr).
    """
    module, _, name = attribute.rpartition(".")
    path = _module_file(files.directory, module)
    if path is None:
        return None
    text = _read(path)
    if literal_name(text, name):
        return None
    # The siblings that it takes names from: `from ._version import version`.
    siblings = re.findall(r"^\s*from \.(\w+) import", text, re.MULTILINE)
    files_beside = (path.parent / f"{sibling}.py" for sibling in siblings)
    return _first_reader((path, *filter(Path.is_file, files_beside)))


def _first_reader(paths: Iterable[Path]) -> VersionCode | None:
    for path in paths:
        text = _read(path)
        tool = git_reader(text) if path.suffix == ".py" else git_command(text)
        if tool is not None:
            return VersionCode(file=path, tool=tool)
    return None


def _candidates(files: PackagingFiles) -> Iterator[Path]:
    for directory, module in _modules(files):
        file = _module_file(directory, module)
        if file is not None:
            yield file
    for name in _scripts(files):
        yield files.directory / name


def _modules(files: PackagingFiles) -> Iterator[tuple[Path, str]]:
    """A backend in the project's tree (PEP 517, `backend-path`), and the module of flit."""
    paths = table(files.pyproject, "build-system").get("backend-path")
    for path in paths if isinstance(paths, list) else ():
        yield files.directory / str(path), files.backend.partition(":")[0]
    name = table(table(files.tools, "flit"), "module").get("name") or files.distribution_name
    if files.backend.startswith("flit_core") and isinstance(name, str):
        yield files.directory, re.sub(r"[-.]+", "_", name)


def _scripts(files: PackagingFiles) -> Iterator[str]:
    """Those of hatchling, of scikit-build-core's providers and of pdm-backend's getters."""
    hatch = table(files.tools, "hatch")
    source = table(files.hatch, "version") or table(hatch, "version")
    if source.get("source") == "code" and isinstance(source.get("path"), str):
        yield source["path"]
    hooks = table(table(files.hatch, "metadata") or table(hatch, "metadata"), "hooks")
    if "custom" in hooks:
        yield str(table(hooks, "custom").get("path", "hatch_build.py"))
    version = table(table(table(files.tools, "scikit-build"), "metadata"), "version")
    if isinstance(version.get("provider-path"), str):
        provider = str(version.get("provider", "")).replace(".", "/")
        yield f"{version['provider-path']}/{provider}.py"
    getter = table(table(files.tools, "pdm"), "version").get("getter")
    if isinstance(getter, str):
        yield f"{getter.partition(':')[0].replace('.', '/')}.py"


def _meson_code(files: PackagingFiles) -> VersionCode | None:
    """A command in `project()` of meson.build that computes the version, or its script."""
    path = files.directory / "meson.build"
    if not files.backend.startswith("mesonpy"):
        return None
    match = _MESON_PROJECT.search(_read(path))
    if match is None or "run_command" not in match[1]:
        return None
    named = _MESON_TOOL.search(match[1])
    tool = named[0].replace("_", "-") if named else git_command(match[1])
    if tool is not None:
        return VersionCode(file=path, tool=tool)
    return _first_reader(files.directory / script for script in _SCRIPT.findall(match[1]))


def _module_file(directory: Path, module: str) -> Path | None:
    relative = module.replace(".", "/")
    for base in (directory, directory / "src", directory / "lib"):
        for name in (f"{relative}.py", f"{relative}/__init__.py"):
            if relative and (base / name).is_file():
                return base / name
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def attribute_of(value: Any) -> str | None:
    """The `attr` of setuptools' version, as `{attr = "…"}` or as setup.cfg's `attr: …`."""
    if isinstance(value, dict):
        value = value.get("attr")
        return value if isinstance(value, str) else None
    if isinstance(value, str) and value.startswith("attr:"):
        return value.removeprefix("attr:").strip()
    return None


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
    # The docstrings of a program may describe anything.
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    words = [
        node.value for node in strings if isinstance(node.value, str) and id(node) not in prose
    ]
    # ["git", "describe"], or run_git("describe") with the program's name elsewhere.
    is_split = "git" in words and any(_READS_TAGS.fullmatch(word) for word in words)
    return GIT_DESCRIBE if is_split or any(map(_COMMAND.search, words)) else None


def git_command(text: str) -> str | None:
    """GIT_DESCRIBE if `text`, of any language, holds a git command that answers with tags."""
    # 'git', 'describe' in a list is one command too.
    return GIT_DESCRIBE if _COMMAND.search(re.sub(r"[\"',\[\]()]", " ", text)) else None


def literal_name(source: str, name: str) -> bool:
    """Whether the Python text `source` binds `name` at its top level to one literal."""
    try:
        value = constants(ast.parse(source)).get(name)
        ast.literal_eval(value or "")
    except (SyntaxError, ValueError):
        return False
    return value is not None
