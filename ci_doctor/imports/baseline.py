# SPDX-License-Identifier: Apache-2.0
"""Known import races: the text of a baseline, and which hazards it accepts. Pure.

One race a line, `KIND MODULE[+MODULE…]`, `*` for any characters, `#` before a comment. Lines and
threads are not part of it: those of third-party packages change with each version.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.imports.analyse.hazard import Hazard, HazardKind

HEADER: Final = "# Import races that ci-doctor import-race accepts: docs/import-race.md#baseline"
_NAMES: Final = {
    HazardKind.REPLACED: "self-replacing",
    HazardKind.CYCLE: "cycle",
    HazardKind.SUBMODULE: "submodule-order",
    HazardKind.FAILED: "failed-import",
    HazardKind.RELOAD: "reload",
}
_ENTRY: Final = re.compile(r"(?P<kind>[a-z-]+)\s+(?P<modules>[^\s#]+)\s*(?:#.*)?")


class Baseline(Struct, frozen=True, kw_only=True):
    """The entries of a baseline, by the lines of its `text`; comments and empty lines have none."""

    text: str = ""
    entries: tuple[str, ...] = ()

    def entry_of(self, hazard: Hazard) -> str | None:
        """The entry that accepts `hazard`."""
        wanted = race_id(hazard)
        for entry in self.entries:
            if fnmatchcase(wanted, entry):
                return entry
        return None

    def unused(self, hazards: Iterable[Hazard]) -> tuple[str, ...]:
        """The entries that accept none of `hazards`."""
        used = {self.entry_of(hazard) for hazard in hazards}
        return tuple(entry for entry in self.entries if entry not in used)


NO_BASELINE: Final = Baseline()


def race_id(hazard: Hazard) -> str:
    """What is the same for a hazard in every run: its kind and its modules."""
    modules = "+".join(sorted(hazard.modules))
    return f"{_NAMES[hazard.kind]} {modules}"


def read_baseline(text: str, where: str) -> Baseline:
    """The baseline that `text` holds. Raises UsageError, which names `where` and the line."""
    entries = []
    for number, line in enumerate(text.splitlines(), start=1):
        entry = _entry(line, f"{where}:{number}")
        if entry is not None:
            entries.append(entry)
    return Baseline(text=text, entries=tuple(entries))


def _entry(line: str, where: str) -> str | None:
    stripped = line.strip()
    if not stripped or stripped.startswith("#"):
        return None
    match = _ENTRY.fullmatch(stripped)
    if match is None or match["kind"] not in _NAMES.values():
        kinds = ", ".join(_NAMES.values())
        raise UsageError(
            f"{where}: {stripped!r} is no import race",
            hint=f"write KIND MODULE+MODULE, with one of the kinds {kinds}",
        )
    return f"{match['kind']} {match['modules']}"


def updated(baseline: Baseline, hazards: Iterable[Hazard]) -> Baseline:
    """`baseline` with an entry for each of `hazards`, and without those that accept none.

    Lines that stay keep their comments and their order.
    """
    known = tuple(hazards)
    unused = set(baseline.unused(known))
    lines = [line for line in baseline.text.splitlines() if _entry(line, "") not in unused]
    if not baseline.text:
        lines = [HEADER]
    new = {race_id(hazard) for hazard in known if baseline.entry_of(hazard) is None}
    text = "\n".join([*lines, *sorted(new)]) + "\n"
    return read_baseline(text, "")
