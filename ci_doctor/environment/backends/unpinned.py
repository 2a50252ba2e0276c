# SPDX-License-Identifier: Apache-2.0
"""Reads packaging files: projects that need no pin, and tools that we can only name."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from ci_doctor.environment.backends.bypass import BypassVariable
from ci_doctor.environment.packaging_files import PackagingFiles, packages
from ci_doctor.environment.project import Project
from ci_doctor.environment.version_code import code_of_attribute, version_code


class UnsupportedTool(Struct, frozen=True, kw_only=True):
    """A tool that we only name.

    `table` is its place under `[tool]`, `package` its canonical name in `build-system.requires`,
    `module` the import in a setup.py; `advice` says what would help. `variable` is one from which
    the tool takes a version, None if there is none.
    """

    tool: str
    table: tuple[str, ...] = ()
    package: str | None = None
    module: str | None = None
    advice: str
    variable: str | None = None


# Variables and options as documented by each tool; checked with versioningit 3.3,
# setuptools-git-versioning 3.2, dunamai 1.26, versioneer 0.29.
UNSUPPORTED_TOOLS: Final = (
    UnsupportedTool(
        tool="poetry-dynamic-versioning",
        table=("poetry-dynamic-versioning",),
        package="poetry-dynamic-versioning",
        advice=(
            "export POETRY_DYNAMIC_VERSIONING_BYPASS=VERSION, "
            "or give it a `pattern` that matches release tags only"
        ),
        variable="POETRY_DYNAMIC_VERSIONING_BYPASS",
    ),
    UnsupportedTool(
        tool="uv-dynamic-versioning",
        table=("uv-dynamic-versioning",),
        package="uv-dynamic-versioning",
        advice=(
            "export UV_DYNAMIC_VERSIONING_BYPASS=VERSION, "
            "or give it a `pattern` that matches release tags only"
        ),
        variable="UV_DYNAMIC_VERSIONING_BYPASS",
    ),
    UnsupportedTool(
        tool="versioningit",
        table=("versioningit",),
        package="versioningit",
        advice=(
            "it reads no variable: set `default-version`, "
            "and `match = ['v[0-9]*']` under [tool.versioningit.vcs]"
        ),
    ),
    UnsupportedTool(
        tool="setuptools-git-versioning",
        table=("setuptools-git-versioning",),
        package="setuptools-git-versioning",
        advice="it reads no variable: set `tag_filter` to a regex that matches release tags only",
    ),
    UnsupportedTool(
        tool="versioneer",
        table=("versioneer",),
        package="versioneer",
        module="versioneer",
        advice="it reads no variable: set `tag_prefix` so that only release tags begin with it",
    ),
    UnsupportedTool(
        tool="pbr",
        package="pbr",
        module="pbr",
        advice="export PBR_VERSION=VERSION",
        variable="PBR_VERSION",
    ),
    UnsupportedTool(
        tool="dunamai",
        package="dunamai",
        module="dunamai",
        advice="it reads no variable: give it a `pattern` that matches release tags only",
    ),
)


_SOURCE_ADVICE: Final = "pin the version in the way that this source documents"
_CODE_ADVICE: Final = "let that code consider release tags only: git describe --match 'v[0-9]*'"
# A build requirement whose name says that it reads a repository.
_SOUNDS_LIKE_GIT: Final = re.compile(r"(^|-)(scm|git|vcs|versioning)(-|$)|git-?version|dunamai")
# These do nothing to a version unless a table asks for it, and then they are recognised by it.
_KNOWN_REQUIREMENTS: Final = {"setuptools-scm", "hatch-vcs", "vcs-versioning", "setuptools-git"}


def fixed(files: PackagingFiles, tool: str, *, version: str | None = None) -> Project:
    """A project whose version stands in a file; `version` is the literal, if there is one."""
    return Project(
        directory=files.directory,
        name=files.distribution_name,
        tool=tool,
        version=version,
        pyproject=files.pyproject,
    )


def other(files: PackagingFiles, tool: str) -> Project:
    """A tool that is known by name, else what setup.py shows, else a version in some file."""
    named = named_tool(files)
    if named is not None:
        return named
    script = files.script
    # With `setup(**keywords)` the version may be among the keywords, unless it stands elsewhere.
    is_hidden = script.has_unreadable_keywords and not _states_version(files)
    if script.computes_version or is_hidden:
        advice = (
            "make setup.py take its version from setuptools-scm, "
            "or from a variable that this job sets"
        )
        return _unsupported(files, "code in setup.py", advice)
    return computed_by_code(files) or fixed(files, tool)


def computed_by_code(files: PackagingFiles, attribute: str | None = None) -> Project | None:
    """A project whose build runs code that reads tags; `attribute` names code of setuptools'.

    None if no such code is found.
    """
    code = version_code(files)
    if code is None and attribute is not None:
        code = code_of_attribute(files, attribute)
    if code is not None:
        place = code.file.relative_to(files.directory)
        return _unsupported(files, f"{code.tool} in {place}", _CODE_ADVICE)
    if files.is_version_dynamic:
        for package in sorted(packages(files.requires) - _KNOWN_REQUIREMENTS):
            if _SOUNDS_LIKE_GIT.search(package):
                return _unsupported(files, package, _SOURCE_ADVICE)
    return None


def other_source(files: PackagingFiles, tool: str) -> Project:
    """A plugin of a build backend that computes versions; `tool` names it if we do not know it."""
    named = named_tool(files)
    if named is not None:
        return named
    return _unsupported(files, tool, _SOURCE_ADVICE)


def named_tool(files: PackagingFiles) -> Project | None:
    """The first unsupported tool that a project shows: by table, build requirement or import."""
    required = packages(files.requires)
    for candidate in UNSUPPORTED_TOOLS:
        if (
            candidate.package in required
            or candidate.module in files.script.modules
            or _holds(files.tools, candidate.table)
        ):
            return _unsupported(files, candidate.tool, candidate.advice, candidate.variable)
    return None


def _unsupported(
    files: PackagingFiles, tool: str, advice: str, variable: str | None = None
) -> Project:
    source = None if variable is None else BypassVariable(tool, variable)
    return Project(
        directory=files.directory,
        name=files.distribution_name,
        tool=tool,
        source=source,
        advice=advice,
        pyproject=files.pyproject,
        reads_generic=source is not None,
    )


def _states_version(files: PackagingFiles) -> bool:
    """Whether setup.cfg states one, or a `[project]` table leaves none to setup()."""
    if "version" in files.cfg_metadata:
        return True
    return bool(files.metadata) and not files.is_version_dynamic


def _holds(tables: Mapping[str, Any], path: Sequence[str]) -> bool:
    inner: Any = tables
    for key in path:
        inner = inner.get(key) if isinstance(inner, Mapping) else None
    return bool(path) and inner is not None
