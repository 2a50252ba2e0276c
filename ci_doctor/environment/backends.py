# SPDX-License-Identifier: Apache-2.0
"""Build backends that take a version from the repository: the ones we pin, and what would help with the others."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct


class Backend(StrEnum):
    """Who computes a project's version.

    FIXED: it stands in a file, so there is nothing to pin. UNSUPPORTED: something that we cannot compute or pin.
    """

    SETUPTOOLS_SCM = "setuptools-scm"
    HATCH_VCS = "hatch-vcs"
    PDM = "pdm-backend"
    FIXED = "fixed"
    UNSUPPORTED = "unsupported"


class UnsupportedTool(Struct, frozen=True, kw_only=True):
    """A tool that we only name.

    `table` is its place under `[tool]`, `package` its canonical name in `build-system.requires`, `module` what a setup.py
    imports; `advice` says what would help.
    """

    tool: str
    table: tuple[str, ...] = ()
    package: str | None = None
    module: str | None = None
    advice: str


# Variables and options as documented by each tool; checked with versioningit 3.3, setuptools-git-versioning 3.2,
# dunamai 1.26, versioneer 0.29.
UNSUPPORTED_TOOLS: Final = (
    UnsupportedTool(
        tool="poetry-dynamic-versioning",
        table=("poetry-dynamic-versioning",),
        package="poetry-dynamic-versioning",
        advice="export POETRY_DYNAMIC_VERSIONING_BYPASS=VERSION, or give it a `pattern` that only release tags match",
    ),
    UnsupportedTool(
        tool="uv-dynamic-versioning",
        table=("uv-dynamic-versioning",),
        package="uv-dynamic-versioning",
        advice="export UV_DYNAMIC_VERSIONING_BYPASS=VERSION, or give it a `pattern` that only release tags match",
    ),
    UnsupportedTool(
        tool="versioningit",
        table=("versioningit",),
        package="versioningit",
        advice="it reads no variable: set `default-version`, and `match = ['v[0-9]*']` under [tool.versioningit.vcs]",
    ),
    UnsupportedTool(
        tool="setuptools-git-versioning",
        table=("setuptools-git-versioning",),
        package="setuptools-git-versioning",
        advice="it reads no variable: set `tag_filter` to a regex that only release tags match",
    ),
    UnsupportedTool(
        tool="versioneer",
        table=("versioneer",),
        package="versioneer",
        module="versioneer",
        advice="it reads no variable: set `tag_prefix` so that only release tags begin with it",
    ),
    UnsupportedTool(tool="pbr", package="pbr", module="pbr", advice="export PBR_VERSION=VERSION"),
    UnsupportedTool(
        tool="dunamai",
        package="dunamai",
        module="dunamai",
        advice="it reads no variable: give it a `pattern` that only release tags match",
    ),
)


def name_unsupported(
    tables: Mapping[str, Any], packages: frozenset[str], modules: frozenset[str]
) -> UnsupportedTool | None:
    """The first tool that a project shows: by its table under `[tool]`, a build requirement, or an import in setup.py."""
    for candidate in UNSUPPORTED_TOOLS:
        inner: Any = tables
        for key in candidate.table:
            inner = inner.get(key) if isinstance(inner, Mapping) else None
        if (
            (candidate.table and inner is not None)
            or candidate.package in packages
            or candidate.module in modules
        ):
            return candidate
    return None
