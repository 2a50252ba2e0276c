# SPDX-License-Identifier: Apache-2.0
"""Recognises errors that two threads importing at once can cause, and names the next step. Pure."""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

EXPLAIN: Final = "ci-doctor explain import-race"
# The texts of CPython 3.8 to 3.14: `import_from` and `module_getattro` in C, `_ModuleLock.acquire`.
_SIGNS: Final = (
    re.compile(
        r"cannot import name '(?P<name>\w+)' from "
        r"(?P<partial>partially initialized module )?'(?P<module>[\w.]+)'"
    ),
    re.compile(
        r"(?P<partial>partially initialized module) '(?P<module>[\w.]+)' "
        r"has no attribute '(?P<name>\w+)'"
    ),
    re.compile(
        r"cannot access submodule '(?P<name>\w+)' of module '(?P<module>[\w.]+)' "
        r"(?P<partial>\(most likely due to a circular import\))"
    ),
    re.compile(r"(?P<partial>deadlock detected by) _ModuleLock\('(?P<module>[\w.]+)'\)"),
)


class ImportRaceSign(Struct, frozen=True, kw_only=True):
    """An error of an import, which a thread may have caused that imported at the same time.

    name: what was missing in `module`; None if the line names none. is_partial: the line itself
    says that the module was incomplete.
    """

    module: str
    name: str | None
    is_partial: bool

    @property
    def probe(self) -> str:
        """The command that tests whether the import can be lost to another thread."""
        target = self.module
        if self.name is not None:
            target += f":{self.name}"
        return f"ci-doctor import-race probe {target}"


def import_race_sign(lines: Iterable[str]) -> ImportRaceSign | None:
    """What the last such line among `lines` says; None if there is none."""
    last = None
    for match in filter(None, (sign.search(line) for line in lines for sign in _SIGNS)):
        groups = match.groupdict()
        last = ImportRaceSign(
            module=groups["module"],
            name=groups.get("name"),
            is_partial=groups["partial"] is not None,
        )
    return last


def is_import_race(text: str) -> bool:
    """Whether `text` is a name of the subject, such an error, or the beginning of one."""
    if text == "import-race" or import_race_sign([text]) is not None:
        return True
    words = ("cannot import name", "partially initialized module", "circular import")
    return any(each in text.lower() for each in words)


def next_step(lines: Iterable[str]) -> str | None:
    """What to do about such an error in a log, without a full stop; None without one."""
    sign = import_race_sign(lines)
    if sign is None:
        return None
    words = f"if it fails in some starts only, two threads import {sign.module} at once: "
    # A probe does not cover import cycles, of which an incomplete module is the usual sign.
    if sign.is_partial:
        return f"{words}`{EXPLAIN}`"
    return f"{words}`{sign.probe}`, and `{EXPLAIN}`"
