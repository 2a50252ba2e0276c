# SPDX-License-Identifier: Apache-2.0
"""Acts on files, by reading: which backend computes a project's version, and with which options."""

import re
from pathlib import Path
from typing import Any

from msgspec import Struct

from ci_doctor.environment.backends import Backend, name_unsupported
from ci_doctor.environment.packaging_files import (
    PackagingFiles,
    packages,
    read_packaging_files,
    table,
)
from ci_doctor.environment.setup_script import ScmOptions
from ci_doctor.errors import UsageError

_PACKAGING_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
_SETUPTOOLS_SCM_TABLES = ("setuptools_scm", "vcs-versioning")


class Project(Struct, frozen=True, kw_only=True):
    """One distribution and the backend that computes its version.

    `name` is the distribution's name, None where no file says it. `tool` is what a reader calls the backend. `version` is
    the literal one, for FIXED. `options` are the backend's, `unreadable` those that only running setup.py can tell.
    `reads_pyproject` says that the setuptools-scm table of `pyproject` applies beneath `options` (a get_version() call reads
    no file). `reads_generic` says that only the variable without a distribution's name reaches the backend.
    """

    directory: Path
    name: str | None
    backend: Backend
    tool: str
    version: str | None = None
    pyproject: dict[str, Any] = {}
    options: dict[str, Any] = {}
    unreadable: tuple[str, ...] = ()
    reads_pyproject: bool = False
    reads_generic: bool = False
    advice: str | None = None

    @property
    def label(self) -> str:
        """How a report names the project."""
        return self.name or self.directory.name

    @property
    def scm_table(self) -> dict[str, Any]:
        """The table that setuptools-scm would read, in its order (setuptools_scm._integration.pyproject_reading)."""
        tables = table(self.pyproject, "tool")
        return next(
            (tables[name] for name in _SETUPTOOLS_SCM_TABLES if isinstance(tables.get(name), dict)),
            {},
        )


def has_project(directory: Path) -> bool:
    """Whether there is a Python project in `directory`: one of the files that packaging reads."""
    return any((directory / name).is_file() for name in _PACKAGING_FILES)


def read_project(directory: Path) -> Project:
    """Say what computes the version of the project in `directory`.

    Raises UsageError where the directory or its packaging files are missing or cannot be parsed (with file and line).
    """
    directory = directory.absolute()
    if not directory.is_dir():
        raise UsageError(
            f"no such project directory: {directory}", hint="name a directory with --project"
        )
    if not has_project(directory):
        raise UsageError(
            f"{directory} has no pyproject.toml, setup.py or setup.cfg",
            hint="name the directory of a Python project with --project",
        )
    # A build's working directory shows no links, and `root = ".."` goes up from there.
    return _detect(read_packaging_files(directory.resolve()))


def _detect(files: PackagingFiles) -> Project:
    """Which backend, by the `build-backend` (PEP 517) and then by that backend's own rules."""
    detectors = {
        "setuptools": _detect_setuptools,
        "hatchling": _detect_hatch,
        "pdm-backend": _detect_pdm,
        "scikit-build-core": _detect_scikit,
    }
    literal = files.metadata.get("version") or table(files.tools, "poetry").get("version")
    named = packages([files.backend.replace(".", "-")])
    required = packages(files.requires)
    # A backend in the project's own tree (`backend-path`) wraps one that it requires.
    wraps = required if "backend-path" in table(files.pyproject, "build-system") else frozenset()
    if isinstance(literal, str) and "poetry-dynamic-versioning" not in required:
        return _project(files, Backend.FIXED, "pyproject.toml", version=literal)
    for package, detector in detectors.items():
        if package in wraps or any(
            name == package or name.startswith(f"{package}-") for name in named
        ):
            return detector(files)
    return _other(files, files.backend)


def _detect_setuptools(files: PackagingFiles) -> Project:
    """By what has the last word: setuptools' `dynamic` table, then setup.py, where setuptools-scm's hook leaves a version alone."""
    script, cfg_version = files.script, files.cfg.get("metadata", {}).get("version")
    if _is_dynamic(files) and "version" in table(table(files.tools, "setuptools"), "dynamic"):
        return _project(files, Backend.FIXED, "[tool.setuptools.dynamic]")
    if script.get_version_calls or script.use_scm_version is not None:
        return _setup_script(files)
    if cfg_version is not None and not cfg_version.startswith(("attr:", "file:")):
        return _project(files, Backend.FIXED, "setup.cfg", version=cfg_version)
    if script.version is not None:
        return _project(files, Backend.FIXED, "setup.py", version=script.version)
    if _asks_for_setuptools_scm(files):
        return _setuptools_scm(files, ScmOptions(values={}), reads_pyproject=True)
    return _other(files, "setuptools")


def _setup_script(files: PackagingFiles) -> Project:
    """A setup.py that asks setuptools-scm itself."""
    calls = files.script.get_version_calls
    if not calls:
        return _setuptools_scm(
            files, files.script.use_scm_version or ScmOptions(values={}), reads_pyproject=True
        )
    # One variable must serve every call, so one call without a distribution's name decides for all.
    call = next((call for call in calls if "dist_name" not in call.values), calls[0])
    return _setuptools_scm(files, call, reads_pyproject=False)


def _asks_for_setuptools_scm(files: PackagingFiles) -> bool:
    """By a table, even an empty one, or by the extra `setuptools-scm[simple]` beside a dynamic version (`should_infer`).

    A plain build requirement does not ask for a version (setuptools-scm 10.3).
    """
    if any(name in files.tools for name in _SETUPTOOLS_SCM_TABLES):
        return True
    extra = re.compile(r"setuptools[-_.]+scm\s*\[[^\]]*\bsimple\b[^\]]*\]", re.IGNORECASE)
    return _is_dynamic(files) and any(extra.match(text) for text in files.requires)


def _is_dynamic(files: PackagingFiles) -> bool:
    dynamic = files.metadata.get("dynamic", [])
    return isinstance(dynamic, list) and "version" in dynamic


def _setuptools_scm(
    files: PackagingFiles, options: ScmOptions, *, reads_pyproject: bool
) -> Project:
    project = _project(files, Backend.SETUPTOOLS_SCM, "setuptools-scm")
    given = (
        options.values.get("dist_name")
        if not reads_pyproject
        else project.scm_table.get("dist_name")
    )
    name = given if isinstance(given, str) else project.name
    return Project(
        directory=files.directory,
        name=name,
        backend=Backend.SETUPTOOLS_SCM,
        tool="setuptools-scm" if reads_pyproject else "setuptools_scm.get_version() in setup.py",
        pyproject=files.pyproject,
        options=options.values,
        unreadable=options.unreadable,
        reads_pyproject=reads_pyproject,
        reads_generic=name is None or (not reads_pyproject and given is None),
    )


def _detect_hatch(files: PackagingFiles) -> Project:
    """`[tool.hatch.version]`, or `[version]` of hatch.toml, which wins (https://hatch.pypa.io/latest/intro/#configuration)."""
    settings = table(files.hatch, "version") or table(table(files.tools, "hatch"), "version")
    source = settings.get("source", "regex")
    if source != "vcs":
        if source in {"regex", "code", "env"}:
            return _project(files, Backend.FIXED, "hatchling")
        return _other(files, f"hatch source {source}")
    # As construct_setuptools_scm_config of hatch_vcs.version_source does.
    options = dict(table(settings, "raw-options"))
    for key, option in (("tag-pattern", "tag_regex"), ("fallback-version", "fallback_version")):
        if settings.get(key):
            options[option] = settings[key]
    given = options.get("dist_name")
    return Project(
        directory=files.directory,
        name=given if isinstance(given, str) else _name(files),
        backend=Backend.HATCH_VCS,
        tool="hatch-vcs",
        options=options,
        reads_generic=given is None,
    )


def _detect_pdm(files: PackagingFiles) -> Project:
    settings = table(table(files.tools, "pdm"), "version")
    source = settings.get("source", "file")
    if source == "file":
        return _project(files, Backend.FIXED, "pdm-backend")
    if source != "scm":
        return _other(files, f"pdm-backend source {source}")
    options = {key: value for key, value in settings.items() if key != "source"}
    return Project(
        directory=files.directory,
        name=_name(files),
        backend=Backend.PDM,
        tool="pdm-backend",
        options=options,
    )


def _detect_scikit(files: PackagingFiles) -> Project:
    """Its setuptools_scm provider reads `[tool.setuptools_scm]` and the name, as setuptools-scm itself does."""
    provider = table(table(table(files.tools, "scikit-build"), "metadata"), "version").get(
        "provider"
    )
    if provider == "scikit_build_core.metadata.setuptools_scm":
        return _setuptools_scm(files, ScmOptions(values={}), reads_pyproject=True)
    return _other(files, "scikit-build-core")


def _other(files: PackagingFiles, tool: str) -> Project:
    """A tool that is known by name, else a version that stands in some file."""
    named = name_unsupported(files.tools, packages(files.requires), files.script.modules)
    if named is not None:
        return _project(files, Backend.UNSUPPORTED, named.tool, advice=named.advice)
    if tool.startswith(("hatch source", "pdm-backend source")):
        return _project(
            files,
            Backend.UNSUPPORTED,
            tool,
            advice="pin the version in the way that this source documents",
        )
    if files.script.computes_version or (
        files.script.has_unreadable_keywords and not _says_a_version(files)
    ):
        advice = "make setup.py take its version from setuptools-scm, or from a variable that this job sets"
        return _project(files, Backend.UNSUPPORTED, "code in setup.py", advice=advice)
    return _project(files, Backend.FIXED, tool)


def _says_a_version(files: PackagingFiles) -> bool:
    """In setup.cfg, or in a `[project]` table, which leaves none to setup() unless it is dynamic."""
    return "version" in files.cfg.get("metadata", {}) or (
        bool(files.metadata) and not _is_dynamic(files)
    )


def _project(
    files: PackagingFiles,
    backend: Backend,
    tool: str,
    *,
    version: str | None = None,
    advice: str | None = None,
) -> Project:
    return Project(
        directory=files.directory,
        name=_name(files),
        backend=backend,
        tool=tool,
        version=version,
        pyproject=files.pyproject,
        advice=advice,
    )


def _name(files: PackagingFiles) -> str | None:
    """setuptools-scm's order: setup.cfg before what setuptools knows from pyproject.toml or setup()."""
    candidates = (
        files.cfg.get("metadata", {}).get("name"),
        files.metadata.get("name"),
        files.script.name,
        table(files.tools, "poetry").get("name"),
    )
    return next((text for text in candidates if isinstance(text, str) and text), None)
