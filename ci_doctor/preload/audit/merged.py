# SPDX-License-Identifier: Apache-2.0
"""Pure. The thread starts of all entry points, each once, with the worst of its races."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.preload.audit.analysis import AuditedStart
from ci_doctor.preload.audit.events import ThreadStart
from ci_doctor.preload.audit.races import RacedModule, RaceHazard
from ci_doctor.preload.preload_rule import parse_rule

# The worst first.
ORDER: Final = (
    RaceHazard.REPLACES_ITSELF,
    RaceHazard.SUBMODULE,
    RaceHazard.CIRCLE,
    RaceHazard.NOT_INSTALLED,
    RaceHazard.SAFE,
)
_MOST_MODULES = 4


class AuditedRace(Struct, frozen=True, kw_only=True):
    """A module that a thread and `rival` both import."""

    raced: RacedModule
    rival: str


class MergedStart(Struct, frozen=True, kw_only=True):
    """A place where threads are started, by whatever way it is reached.

    `races` has the worst of each module, the worst modules first. `imports` is the largest number
    of modules that one of its threads imports.
    """

    start: ThreadStart
    targets: tuple[str, ...]
    entries: tuple[str, ...]
    imports: int
    running: frozenset[str]
    races: tuple[AuditedRace, ...]

    @property
    def worst(self) -> RaceHazard:
        """The worst hazard of its races."""
        return self.races[0].raced.hazard if self.races else RaceHazard.SAFE

    @property
    def when(self) -> str:
        """When the thread starts."""
        if self.start.is_possible:
            return "if called"
        phase = "at import" if self.start.at_import else "when run"
        return f"{phase}, conditionally" if self.start.arms else phase

    @property
    def place(self) -> str:
        """The file and line."""
        return f"{self.start.site.file}:{self.start.site.line}"

    def harmful(self) -> tuple[AuditedRace, ...]:
        """The races that the import lock does not settle."""
        return tuple(race for race in self.races if race.raced.hazard is not RaceHazard.SAFE)


def merged(starts: Iterable[AuditedStart]) -> tuple[MergedStart, ...]:
    """One for each place, the ones with the worst races first, then those at import."""
    places: dict[tuple[str, int, str], list[AuditedStart]] = {}
    for each in starts:
        site = each.start.site
        places.setdefault((site.file, site.line, each.start.kind), []).append(each)
    found = [_merge(group) for group in places.values()]
    found.sort(key=_rank)
    return tuple(found)


def rule_text(start: MergedStart) -> str | None:
    """The preload rule that settles its worst races; None if no rule can."""
    harmful = start.harmful()
    worst = [race.raced for race in harmful if race.raced.hazard is start.worst]
    # What is being loaded when the thread starts cannot be loaded before.
    modules = [raced for raced in worst if raced.module not in start.running][:_MOST_MODULES]
    if not modules:
        return None
    text = ";".join(map(_preload, modules))
    try:
        parse_rule(f"{start.start.trigger}={text}")
    except UsageError:
        return None
    return f"{start.start.trigger}={text}"


def _preload(raced: RacedModule) -> str:
    return f"{raced.module}:{','.join(raced.names)}" if raced.names else raced.module


def _merge(group: list[AuditedStart]) -> MergedStart:
    # The surest way of reaching it, and of those the earliest.
    surest = min(group, key=_doubt)
    worst: dict[str, AuditedRace] = {}
    running: set[str] = set()
    for each in group:
        if each.start.is_possible > surest.start.is_possible:
            continue
        running |= each.running
        for rival in each.rivals:
            for raced in rival.raced:
                known = worst.get(raced.module)
                if known is None or _badness(raced) < _badness(known.raced):
                    worst[raced.module] = AuditedRace(raced=raced, rival=rival.name)
    races = sorted(worst.values(), key=lambda race: _badness(race.raced))
    return MergedStart(
        start=surest.start,
        targets=tuple(dict.fromkeys(each.start.target_text for each in group)),
        entries=tuple(dict.fromkeys(each.entry for each in group)),
        imports=max(len(each.imports) for each in group),
        running=frozenset(running),
        races=tuple(races),
    )


def _doubt(audited: AuditedStart) -> tuple[bool, bool, bool]:
    start = audited.start
    return start.is_possible, bool(start.arms), not start.at_import


def _badness(raced: RacedModule) -> tuple[int, bool]:
    return ORDER.index(raced.hazard), raced.is_possible


def _rank(start: MergedStart) -> tuple[int, bool, bool, str, int]:
    site = start.start.site
    return (
        ORDER.index(start.worst),
        start.start.is_possible,
        not start.start.at_import,
        site.file,
        site.line,
    )
