# SPDX-License-Identifier: Apache-2.0
"""Reads site directories: the exact build of a library, where it lies, and how torch was built.

Nothing is imported.
"""

import ast
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from ci_doctor.caches.families.unknown_fact import UnknownFactError
from ci_doctor.identity.libraries import Installed, installed, record_digest
from ci_doctor.identity.library_names import normal
from ci_doctor.identity.origin import is_editable, read_origin

_ASSIGNMENT = re.compile(r"^(\w+)(?:\s*:[^=\n]+)?\s*=\s*(.+)$", re.MULTILINE)
ABSENT = "not installed"


def package_build(name: str, directories: Sequence[Path]) -> str:
    """`2.13.0+cpu, files 1f2e…`: the version and a digest of RECORD; or `not installed`.

    Whether a cache can be used without a library is for the caller to decide (`tiers.py`).

    Raises UnknownFactError for an editable installation and one without RECORD: their files may
    change without a trace.
    """
    package = find_package(name, directories)
    if package is None:
        return ABSENT
    if is_editable(read_origin(package.folder)):
        raise UnknownFactError("it is installed as editable, so its files may change at any time")
    digest = record_digest(package.folder / "RECORD")
    if not package.version or digest is None:
        raise UnknownFactError(f"{package.folder} has no version or no RECORD")
    return f"{package.version}, files {digest}"


def packages_build(directories: Sequence[Path]) -> str:
    """A digest of all installed distributions: name, version and RECORD of each.

    One that is editable counts by its name: its files may change at any time.
    """
    lines = []
    for package in installed(directories, lambda _: True):
        record = record_digest(package.folder / "RECORD")
        content = "editable" if is_editable(read_origin(package.folder)) else record
        lines.append(f"{package.name} {package.version} {content}")
    digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
    return f"{len(lines)} distributions, {digest[:12]}"


def find_package(name: str, directories: Sequence[Path]) -> Installed | None:
    """The distribution that an import finds first; None without one."""
    wanted = normal(name)
    return next(installed(directories, lambda each: each == wanted), None)


def package_time(name: str, directories: Sequence[Path]) -> str:
    """When a distribution was installed, ns since 1970: that of RECORD. Raises UnknownFactError."""
    package = find_package(name, directories)
    if package is None:
        return ABSENT
    try:
        return str((package.folder / "RECORD").stat().st_mtime_ns)
    except OSError as error:
        raise UnknownFactError(f"{package.folder}/RECORD: {error.strerror}") from error


def torch_build(name: str, directories: Sequence[Path]) -> str:
    """A value in torch/version.py (`git_version`, `cuda`, `hip`), `none` if it is None.

    Raises UnknownFactError.
    """
    for directory in directories:
        file = directory / "torch" / "version.py"
        if file.is_file():
            return _value(name, file)
    raise UnknownFactError("torch is not installed for the job's Python")


def _value(name: str, file: Path) -> str:
    try:
        values = dict(_ASSIGNMENT.findall(file.read_text(errors="replace")))
        value = ast.literal_eval(values[name])
    except (OSError, KeyError, ValueError, SyntaxError) as error:
        raise UnknownFactError(f"{file} does not give {name}") from error
    return "none" if value is None else str(value)
