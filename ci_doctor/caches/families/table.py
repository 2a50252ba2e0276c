# SPDX-License-Identifier: Apache-2.0
"""Reads the user's name: all families, and the directory of each."""

from collections.abc import Mapping
from pathlib import Path

from ci_doctor.caches.families.kernel_rows import KERNEL_ROWS
from ci_doctor.caches.families.torch_rows import TORCH_ROWS
from ci_doctor.caches.families.family import Family
from ci_doctor.environment.cache_table import BY_VARIABLE, cache_directory, default_directory

FAMILIES: Mapping[str, Family] = {
    family.name: family for family in (*TORCH_ROWS, *KERNEL_ROWS)
}


def all_families() -> tuple[Family, ...]:
    """Every family that is known, by its name."""
    return tuple(FAMILIES.values())


def directory_of(family: Family, environ: Mapping[str, str]) -> Path | None:
    """Where a process with `environ` has this cache, whether or not it exists.

    None if nothing says so: no variable, and no default or no home directory.
    """
    top = _top(family, environ)
    return None if top is None else top / family.subdirectory


def _top(family: Family, environ: Mapping[str, str]) -> Path | None:
    row = BY_VARIABLE.get(family.variable or "")
    if row is not None:
        return cache_directory(row, environ)
    value = environ.get(family.variable) if family.variable else None
    if value:
        return Path(value)
    return default_directory(family.default, environ) if family.default else None
