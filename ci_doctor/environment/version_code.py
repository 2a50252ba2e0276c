# SPDX-License-Identifier: Apache-2.0
"""Reads a project's files: the code that a build runs to get a version, and what it reads."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from ci_doctor.environment.code_reading_git import git_command, git_reader, literal_name
from ci_doctor.environment.packaging_files import PackagingFiles, table

_MESON_PROJECT = re.compile(r"\bproject\s*\(")
_MESON_TOOL = re.compile(r"setuptools_scm|versioneer|dunamai|versioningit")
_SCRIPT = re.compile(r"'([^']+\.(?:py|sh))'")


class VersionCode(Struct, frozen=True, kw_only=True):
    """Code that computes a version from git: `tool` is what it reads tags with."""

    file: Path
    tool: str


def version_code(files: PackagingFiles) -> VersionCode | None:
    """The first file that computes the version and reads tags; None if there is none."""
    meson = _meson_code(files)
    if meson is not None:
        return meson
    return _first_reader(_candidates(files))


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
    return _first_reader((path, *_imported_from(path, text)))


def _first_reader(paths: Iterable[Path]) -> VersionCode | None:
    for path in paths:
        text = _read(path)
        tool = git_reader(text) if path.suffix == ".py" else git_command(text)
        if tool is not None:
            return VersionCode(file=path, tool=tool)
    return None


def _candidates(files: PackagingFiles) -> Iterator[Path]:
    yield from _in_tree_backend(files)
    hatch = table(files.tools, "hatch")
    source = table(files.hatch, "version") or table(hatch, "version")
    if source.get("source") == "code" and isinstance(source.get("path"), str):
        yield files.directory / source["path"]
    hooks = table(table(files.hatch, "metadata") or table(hatch, "metadata"), "hooks")
    if "custom" in hooks:
        yield files.directory / str(table(hooks, "custom").get("path", "hatch_build.py"))
    if files.backend.startswith("flit_core"):
        yield from _flit_module(files)
    for name in _code_paths(files):
        yield files.directory / name


def _in_tree_backend(files: PackagingFiles) -> Iterator[Path]:
    build = table(files.pyproject, "build-system")
    paths = build.get("backend-path")
    if not isinstance(paths, list):
        return
    module = files.backend.partition(":")[0]
    for path in paths:
        file = _module_file(files.directory / str(path), module)
        if file is not None:
            yield file


def _meson_code(files: PackagingFiles) -> VersionCode | None:
    """A command in `project()` of meson.build that computes the version, or its script."""
    path = files.directory / "meson.build"
    if not files.backend.startswith("mesonpy"):
        return None
    arguments = _project_arguments(_read(path))
    if "run_command" not in arguments:
        return None
    named = _MESON_TOOL.search(arguments)
    tool = named[0].replace("_", "-") if named else git_command(arguments)
    if tool is not None:
        return VersionCode(file=path, tool=tool)
    return _first_reader(files.directory / script for script in _SCRIPT.findall(arguments))


def _project_arguments(text: str) -> str:
    """What stands between the parentheses of `project(...)`."""
    match = _MESON_PROJECT.search(text)
    if match is None:
        return ""
    depth = 1
    for index in range(match.end(), len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return text[match.end() : index]
    return text[match.end() :]


def _flit_module(files: PackagingFiles) -> Iterator[Path]:
    name = table(table(files.tools, "flit"), "module").get("name") or files.distribution_name
    if isinstance(name, str):
        file = _module_file(files.directory, re.sub(r"[-.]+", "_", name))
        if file is not None:
            yield file


def _code_paths(files: PackagingFiles) -> Iterator[str]:
    """Scripts of providers in the project's tree: scikit-build-core's and pdm-backend's."""
    metadata = table(table(files.tools, "scikit-build"), "metadata")
    version = table(metadata, "version")
    if isinstance(version.get("provider-path"), str):
        provider = str(version.get("provider", "")).replace(".", "/")
        yield f"{version['provider-path']}/{provider}.py"
    getter = table(table(files.tools, "pdm"), "version").get("getter")
    if isinstance(getter, str):
        yield f"{getter.partition(':')[0].replace('.', '/')}.py"


def _module_file(directory: Path, module: str) -> Path | None:
    relative = module.replace(".", "/")
    for base in (directory, directory / "src", directory / "lib"):
        for name in (f"{relative}.py", f"{relative}/__init__.py"):
            if relative and (base / name).is_file():
                return base / name
    return None


def _imported_from(path: Path, text: str) -> Iterator[Path]:
    """The siblings that a module takes names from: `from ._version import version`."""
    for name in re.findall(r"^\s*from \.(\w+) import", text, re.MULTILINE):
        file = path.parent / f"{name}.py"
        if file.is_file():
            yield file


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
