# SPDX-License-Identifier: Apache-2.0
"""Pure. Families of a repository's own: `NAME=DIR`, and `[cache.own.NAME]`."""

import re

from msgspec import Struct

from ci_doctor.caches.families.fact_names import is_fact_name
from ci_doctor.caches.families.family import CacheLine, Family
from ci_doctor.errors import UsageError
from ci_doctor.store.merge import Merge

# It is a part of the names of objects in a store.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class OwnFamily(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[cache.own.NAME]`: the fields of a family (`family.py`).

    Nobody has said what decides validity of an unknown cache, so by default everything does: the
    machine, its compiler and its GPUs, the Python environment with its packages, and the directory.
    files: whose content decides, relative to the working directory (a lock file). fallback: if no
    saved cache has these contents, the newest that fits otherwise is restored.
    """

    variable: str | None = None
    default: str | None = None
    subdirectory: str = ""
    distributions: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    fallback: bool = False
    hard: tuple[str, ...] = (
        "os.architecture",
        "glibc",
        "python.abi",
        "python.packages",
        "cpu.isa",
        "compiler",
        "compiler.native",
        "nvcc",
        "gpu.names",
        "gpu.capability",
        "driver",
    )
    path: tuple[str, ...] = ("cache.root", "python.environment", "python.base")
    soft: tuple[str, ...] = ("job.pipeline", "job.step", "job.branch")
    merge: Merge = Merge.UNION
    group: int = 0
    markers: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ("*.lock", "*.tmp", "tmp/*", "*/tmp/*")
    compiled: tuple[str, ...] = ("*",)
    lines: tuple[CacheLine, ...] = ()


def own_family(name: str, settings: OwnFamily | None = None) -> Family:
    """A family of one's own. Raises UsageError for what no family can be."""
    settings = settings or OwnFamily()
    key = f"[cache.own.{name}]"
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a cache family",
            hint="use lower-case letters, digits and hyphens",
        )
    if settings.fallback and not settings.files:
        raise UsageError(f"{key}: fallback is about `files`, and none is named")
    for fact in (*settings.hard, *settings.path, *settings.soft):
        if not is_fact_name(fact):
            raise UsageError(f"{key} names a fact that nobody reads: {fact}")
    for line in settings.lines:
        try:
            re.compile(line.pattern)
        except re.error as error:
            raise UsageError(f"{key} has a pattern that is no regex: {error}") from error
    if ".." in settings.subdirectory.split("/") or settings.subdirectory.startswith("/"):
        raise UsageError(f"{key}: subdirectory leads out of the directory")
    fields = {field: getattr(settings, field) for field in OwnFamily.__struct_fields__}
    return Family(name=name, library=name, source="this repository's configuration", **fields)
