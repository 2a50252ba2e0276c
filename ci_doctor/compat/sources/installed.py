# SPDX-License-Identifier: Apache-2.0
"""Reads an installed package from its files: its interpreter is never started."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ci_doctor.compat.sources.code_tree import CodeTree
from ci_doctor.compat.sources.directory import read_inside
from ci_doctor.compat.sources.metadata import metadata_fields
from ci_doctor.errors import UsageError


def installed_tree(name: str, python: Path | None) -> CodeTree:
    """The files of the distribution `name` in the environment of `python`, or in ours.

    Raises UsageError if it is not installed there.
    """
    for site in site_directories(python):
        info = _information(site, name)
        if info is not None:
            return _tree(site, info)
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


def _information(site: Path, name: str) -> Path | None:
    wanted = _normalised(name)
    for info in sorted(site.glob("*.dist-info")):
        if _normalised(info.name.partition("-")[0]) == wanted:
            return info
    return None


def _normalised(name: str) -> str:
    """As PEP 503 compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _tree(site: Path, info: Path) -> CodeTree:
    fields = metadata_fields((info / "METADATA").read_bytes())
    names = frozenset(_recorded(site, info))

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


def _recorded(site: Path, info: Path) -> Iterator[str]:
    """The files in RECORD that lie below the site directory."""
    try:
        lines = (info / "RECORD").read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        name = line.rsplit(",", 2)[0].strip('"')
        is_code = name.endswith((".py", ".so")) and not name.startswith(("/", ".."))
        if is_code and (site / name).is_file():
            yield name
