# SPDX-License-Identifier: Apache-2.0
"""Reads the file system: the directories on sys.path that hold installed packages, and whose they are."""

import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from msgspec import Struct

from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.python_state import PythonState

_NAMES = frozenset({"site-packages", "dist-packages"})
_DEBIAN = "/usr/lib/python3/dist-packages"


class SiteKind(Enum):
    """Where a directory on sys.path comes from."""

    OWN = "of the interpreter"
    SYSTEM = "of the base interpreter"
    USER = "of the user"
    PYTHONPATH = "of PYTHONPATH"
    ADDED = "of a .pth file"
    DEBIAN = "of the operating system"


class SiteDirectory(Struct, frozen=True, kw_only=True):
    """One directory; `names` are its entries, sorted."""

    path: Path
    kind: SiteKind
    names: tuple[str, ...]

    @property
    def is_installed_to(self) -> bool:
        """Whether an installer of Python packages writes to it for this interpreter."""
        return self.kind in {SiteKind.OWN, SiteKind.SYSTEM, SiteKind.USER}


def site_directories(state: PythonState, context: CheckContext) -> Iterator[SiteDirectory]:
    """Each directory on sys.path that can hold packages, once, in the order of the search.

    One that cannot be listed has no names.
    """
    real_paths = set()
    pythonpath = {str(entry) for entry in pythonpath_entries(context)}
    for entry in state.path:
        real = os.path.realpath(entry)
        if real in real_paths or _is_stdlib(entry, state) or not os.path.isdir(entry):  # noqa: PTH112
            continue
        real_paths.add(real)
        kind = _kind(entry, state, pythonpath)
        yield SiteDirectory(path=Path(entry), kind=kind, names=_names(entry))


def pythonpath_entries(context: CheckContext) -> list[Path]:
    """The directories that PYTHONPATH names; a relative one is below the job's directory."""
    value = context.environ.get("PYTHONPATH", "")
    entries = [entry for entry in value.split(os.pathsep) if entry]
    # Not resolve(): a link stays on sys.path as it is.
    return [Path(os.path.abspath(context.cwd / entry)) for entry in entries]  # noqa: PTH100


def _is_stdlib(entry: str, state: PythonState) -> bool:
    return entry in {state.stdlib, f"{state.stdlib}/lib-dynload"} or entry.endswith("/lib-dynload")


def _kind(entry: str, state: PythonState, pythonpath: set[str]) -> SiteKind:
    # Debian's packages have an egg-info beside a dist-info, and their modules are stripped.
    if entry == _DEBIAN:
        return SiteKind.DEBIAN
    if entry == state.user_dir:
        return SiteKind.USER
    is_site = os.path.basename(entry) in _NAMES  # noqa: PTH119
    if is_site and entry.startswith(f"{state.prefix}/"):
        return SiteKind.OWN
    if entry in pythonpath:
        return SiteKind.PYTHONPATH
    return SiteKind.SYSTEM if is_site else SiteKind.ADDED


def _names(entry: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(os.listdir(entry)))  # noqa: PTH208 - half the time of iterdir
    except OSError:
        return ()
