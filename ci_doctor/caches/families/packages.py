# SPDX-License-Identifier: Apache-2.0
"""Reads site directories: the exact build of a library, where it lies, and how torch was built.

Nothing is imported.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from ci_doctor.caches.families.unknown_fact import UnknownFactError
from ci_doctor.machine.packages import find_package, installed, record_digest, torch_build

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
    if package.origin.is_editable:
        raise UnknownFactError("it is installed as editable, so its files may change at any time")
    digest = record_digest(package.folder)
    if not package.version or digest is None:
        raise UnknownFactError(f"{package.folder} has no version or no RECORD")
    return f"{package.version}, files {digest}"


def packages_build(directories: Sequence[Path]) -> str:
    """A digest of all installed distributions: name, version and RECORD of each.

    One that is editable counts by its name: its files may change at any time.
    """
    lines = []
    for package in installed(directories):
        record = record_digest(package.folder)
        content = "editable" if package.origin.is_editable else record
        lines.append(f"{package.name} {package.version} {content}")
    digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
    return f"{len(lines)} distributions, {digest[:12]}"


def package_time(name: str, directories: Sequence[Path]) -> str:
    """When a distribution was installed, ns since 1970: that of RECORD. Raises UnknownFactError."""
    package = find_package(name, directories)
    if package is None:
        return ABSENT
    try:
        return str(package.record.stat().st_mtime_ns)
    except OSError as error:
        raise UnknownFactError(f"{package.record}: {error.strerror}") from error


def torch_fact(name: str, directories: Sequence[Path]) -> str:
    """`git` (the commit) or `cuda` (with ROCm `hip …`) of the PyTorch; `none` if it has none.

    Raises UnknownFactError.
    """
    try:
        build = torch_build(directories)
    except ValueError as error:
        raise UnknownFactError(str(error)) from error
    if build is None:
        raise UnknownFactError("torch is not installed for the job's Python")
    if name == "git" and build.git is None:
        raise UnknownFactError("torch/version.py does not give git_version")
    value = build.git if name == "git" else build.cuda
    if value is None and build.hip is not None:
        return f"hip {build.hip}"
    return value or "none"
