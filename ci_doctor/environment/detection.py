# SPDX-License-Identifier: Apache-2.0
"""Reads packaging files: which backend computes a project's version, and with which options."""

from pathlib import Path

from ci_doctor.environment.backends.build_backends import BUILD_BACKENDS
from ci_doctor.environment.backends.unpinned import computed_by_code, fixed, other
from ci_doctor.environment.packaging_files import (
    PackagingFiles,
    packages,
    read_packaging_files,
    table,
)
from ci_doctor.environment.project import Project
from ci_doctor.errors import UsageError

_PACKAGING_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


def has_project(directory: Path) -> bool:
    """Whether there is a Python project in `directory`: one of the files that packaging reads."""
    return any((directory / name).is_file() for name in _PACKAGING_FILES)


def read_project(directory: Path) -> Project:
    """Return the project in `directory` with the tool that computes its version.

    Raises UsageError if the directory or its packaging files are missing or cannot be parsed (with
    file and line).
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
    literal = files.metadata.get("version") or table(files.tools, "poetry").get("version")
    # poetry-dynamic-versioning replaces the literal during the build.
    if isinstance(literal, str) and "poetry-dynamic-versioning" not in packages(files.requires):
        return fixed(files, "pyproject.toml", version=literal)
    if "backend-path" in table(files.pyproject, "build-system"):
        computed = computed_by_code(files)
        if computed is not None:
            return computed
    for package, detect in BUILD_BACKENDS.items():
        if _is_built_by(files, package):
            return detect(files)
    return other(files, files.backend)


def _is_built_by(files: PackagingFiles, package: str) -> bool:
    # A backend in the project's own tree (`backend-path`) wraps one that it requires.
    in_tree = "backend-path" in table(files.pyproject, "build-system")
    if in_tree and package in packages(files.requires):
        return True
    # `hatchling.build` belongs to hatchling, `setuptools.build_meta:__legacy__` to setuptools.
    for name in packages([files.backend.replace(".", "-")]):
        if name == package or name.startswith(f"{package}-"):
            return True
    return False
