# SPDX-License-Identifier: Apache-2.0
"""Which delay would make a hazard happen, and whether it did (active testing; TSVD, Li et al., SOSP 2019). Pure."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from ci_doctor.imports.analyse.hazard import Closeness, Hazard, HazardKind
from ci_doctor.imports.record.events import Deadlock, HeldImport, ImportEvent, Wait
from ci_doctor.imports.record.trace import RecordedProcess

# A second run is not as fast as the first, so twice the gap that was seen, and a second for a loaded machine.
_FACTOR = 2.0
_MARGIN_S = 1.0
_SHORTEST_S = 2.0
_LONGEST_S = 30.0


class Hold(Struct, frozen=True, kw_only=True):
    """One delay that the recorder makes, of at most `limit_s` seconds; its modes are told in the recorder's own hold module.

    `y` is empty in mode `exec`.
    """

    mode: Literal["exec", "together", "late"]
    x: str
    y: str = ""
    limit_s: float

    def text(self) -> str:
        """As CI_DOCTOR_IMPORT_RACE_HOLD has it."""
        return f"{self.mode} {self.x} {self.y or '-'} {self.limit_s:g}"

    def describe(self) -> str:
        """For a person."""
        if self.mode == "exec":
            return f"holding {self.x} until another thread asks for it"
        later = "" if self.mode == "together" else f", {self.x} last"
        return f"holding {self.x} and {self.y} until two threads have one each{later}"


def limit_s(hazard: Hazard) -> float:
    """How long a thread is held: long enough for the other one to come as late as it did when it was recorded."""
    gap_s = abs(hazard.margin_ns or 0) / 1e9
    return round(min(max(_FACTOR * gap_s + _MARGIN_S, _SHORTEST_S), _LONGEST_S), 1)


def holds(hazard: Hazard) -> tuple[Hold, ...]:
    """The delays that can make it happen, in the order to try them."""
    limit = limit_s(hazard)
    if hazard.kind in {HazardKind.REPLACED, HazardKind.FAILED}:
        return (Hold(mode="exec", x=hazard.modules[0], limit_s=limit),)
    x, y = hazard.pair or (hazard.modules[0], hazard.modules[-1])
    return (
        Hold(mode="together", x=x, y=y, limit_s=limit),
        Hold(mode="late", x=x, y=y, limit_s=limit),
        Hold(mode="late", x=y, y=x, limit_s=limit),
    )


def fired(hazard: Hazard, processes: Iterable[RecordedProcess]) -> bool:
    """Whether a run shows that it has happened: a thread was handed a module that is none, or went on without its lock."""
    return any(_shows(hazard, event) for process in processes for event in process.events)


def _shows(hazard: Hazard, event: ImportEvent) -> bool:
    modules = set(hazard.modules)
    match hazard.kind:
        case HazardKind.REPLACED:
            return isinstance(event, Wait) and event.outcome == "replaced" and event.name in modules
        case HazardKind.FAILED:
            return isinstance(event, Wait) and event.outcome == "removed" and event.name in modules
        case _:
            # Both sides are modules of this hazard: the lock that is wanted and one that is held.
            return (
                isinstance(event, Deadlock)
                and event.name in modules
                and not modules.isdisjoint(event.held)
            )


def was_held(processes: Iterable[RecordedProcess]) -> bool:
    """Whether the delay was made at all."""
    return any(isinstance(event, HeldImport) for process in processes for event in process.events)


def met(processes: Iterable[RecordedProcess]) -> bool:
    """Whether another thread came while one was held."""
    return any(
        isinstance(event, HeldImport) and event.met
        for process in processes
        for event in process.events
    )


class Candidate(Struct, frozen=True, kw_only=True):
    """Hazards that the same delays decide, the worst first: the same modules at several places, or in several processes."""

    hazards: tuple[Hazard, ...]

    @property
    def worst(self) -> Hazard:
        """The one that stands for all."""
        return self.hazards[0]

    @property
    def has_fired(self) -> bool:
        """Whether one of them has happened without any delay."""
        return self.worst.closeness is Closeness.FIRED


_CLOSENESS = list(Closeness)


def grouped(hazards: Iterable[Hazard]) -> tuple[Candidate, ...]:
    """The hazards of all processes by what decides them, worst first."""
    groups: dict[tuple[object, ...], list[Hazard]] = {}
    for hazard in sorted(hazards, key=_badness):
        groups.setdefault(_decided_by(hazard), []).append(hazard)
    return tuple(Candidate(hazards=tuple(group)) for group in groups.values())


def _badness(hazard: Hazard) -> tuple[int, bool, int]:
    """An unknown margin comes after the known ones, as in `find_hazards`."""
    return _CLOSENESS.index(hazard.closeness), hazard.margin_ns is None, abs(hazard.margin_ns or 0)


def _decided_by(hazard: Hazard) -> tuple[object, ...]:
    return (hazard.kind, *((hold.mode, hold.x, hold.y) for hold in holds(hazard)))
