# SPDX-License-Identifier: Apache-2.0
"""Reads an installed package from its files: its interpreter is never started."""

import sys
from pathlib import Path

from ci_doctor.compat.sources.code_tree import CodeTree
from ci_doctor.compat.sources.directory import read_inside
from ci_doctor.compat.sources.metadata import metadata_fields
from ci_doctor.errors import UsageError
from ci_doctor.machine.packages import Package, installed, normal, read_record


def installed_tree(name: str, python: Path | None) -> CodeTree:
    """The files of the distribution `name` in the environment of `python`, or in ours.

    Raises UsageError if it is not installed there.
    """
    wanted = normal(name)
    for package in installed(site_directories(python), lambda each: each == wanted):
        if package.is_wheel:
            return _tree(package)
    where = "this Python" if python is None else str(python)
    raise UsageError(
        f"{name} is no file or directory, and no package of {where}",
        hint="name a path, a wheel, an sdist, PATH@REVISION, or a package and --python",
    )


def site_directories(python: Path | None) -> list[Path]:
    """Where the interpreter keeps packages, by the layout of its prefix."""
    if python is None:
        return [Path(each) for each in sys.path if Path(each).is_dir()]
    # The path as it was typed: a virtual environment's python is a link to another one.
    prefix = python if python.is_dir() else python.parent.parent
    patterns = (
        "lib*/python3*/site-packages",
        "lib*/python3*/dist-packages",
        "lib/python3/dist-packages",
    )
    return [site for pattern in patterns for site in sorted(prefix.glob(pattern))]


def _tree(package: Package) -> CodeTree:
    site = package.site
    recorded = (file.path for file in read_record(package.folder) if file.is_in_site)
    code = (path for path in recorded if path.endswith((".py", ".so")))
    names = frozenset(path for path in code if (site / path).is_file())
    fields = metadata_fields((package.folder / "METADATA").read_bytes())

    def read(name: str) -> bytes:
        return read_inside(site.resolve(), name)

    if not any(name.endswith(".py") for name in names):
        raise UsageError(
            f"{fields.name} has no Python file in {site}",
            hint="if it is an editable installation, name its checkout",
        )
    return CodeTree(
        label=f"{fields.name} {fields.version}",
        names=names,
        read=read,
        distribution=fields.name,
        version=fields.version,
    )
