# SPDX-License-Identifier: Apache-2.0
"""Which delay would make a hazard happen, and whether a run with it did. Pure.

This is active testing (TSVD, Li et al., SOSP 2019).
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from ci_doctor.imports.analyse.harm import harms
from ci_doctor.imports.analyse.hazard import Closeness, Hazard, HazardKind, badness
from ci_doctor.imports.record.events import HeldImport, ImportEvent
from ci_doctor.imports.record.recorded import RecordedProcess

# A second run is not as fast as the first one: twice the recorded gap, and a second more for a
# loaded machine.
_FACTOR = 2.0
_MARGIN_S = 1.0
_SHORTEST_S = 2.0
_LONGEST_S = 30.0


class Hold(Struct, frozen=True, kw_only=True):
    """One delay that the recorder makes, of at most `limit_s` seconds.

    The recorder's module `_ci_doctor_hold` describes the modes. `y` is empty in mode `exec`.
    """

    mode: Literal["exec", "together", "late"]
    x: str
    y: str = ""
    limit_s: float

    def text(self) -> str:
        """The form in CI_DOCTOR_IMPORT_RACE_HOLD."""
        # The recorder splits it at blanks, so that nothing may be empty.
        y = self.y or "-"
        return f"{self.mode} {self.x} {y} {self.limit_s:g}"

    def describe(self) -> str:
        """For a person."""
        if self.mode == "exec":
            return f"holding {self.x} until another thread asks for it"
        both = f"holding {self.x} and {self.y} until two threads have one each"
        if self.mode == "together":
            return both
        return f"{both}, {self.x} last"


def limit_s(hazard: Hazard) -> float:
    """How many seconds to delay: the other thread arrives as late as it did in the recording."""
    gap_s = abs(hazard.margin_ns or 0) / 1e9
    wanted_s = _FACTOR * gap_s + _MARGIN_S
    return round(min(max(wanted_s, _SHORTEST_S), _LONGEST_S), 1)


def holds(hazard: Hazard) -> tuple[Hold, ...]:
    """The delays that can make it happen, in the order in which to try them."""
    limit = limit_s(hazard)
    # A reload needs no delay to meet a thread that has the module: any run may show nothing.
    if hazard.kind is HazardKind.RELOAD:
        return ()
    # One module: it is enough that the other thread requests it while its code runs.
    if hazard.kind in {HazardKind.REPLACED, HazardKind.FAILED}:
        return (Hold(mode="exec", x=hazard.modules[0], limit_s=limit),)
    x, y = hazard.pair or (hazard.modules[0], hazard.modules[-1])
    # `late` decides which thread gives up its wait: CPython lets the later one continue, and only
    # one of the two may be harmed by that.
    return (
        Hold(mode="together", x=x, y=y, limit_s=limit),
        Hold(mode="late", x=x, y=y, limit_s=limit),
        Hold(mode="late", x=y, y=x, limit_s=limit),
    )


def fired(hazard: Hazard, processes: Iterable[RecordedProcess]) -> bool:
    """Whether the events of a run show that the hazard did harm."""
    return any(True for _ in harms(hazard, processes))


def _events(processes: Iterable[RecordedProcess]) -> Iterator[ImportEvent]:
    for process in processes:
        yield from process.events


def was_held(processes: Iterable[RecordedProcess]) -> bool:
    """Whether the delay was made at all."""
    return any(True for _ in _held(processes))


def met(processes: Iterable[RecordedProcess]) -> bool:
    """Whether another thread arrived during the delay."""
    return any(event.met for event in _held(processes))


def _held(processes: Iterable[RecordedProcess]) -> Iterator[HeldImport]:
    for event in _events(processes):
        if isinstance(event, HeldImport):
            yield event


class RaceCandidate(Struct, frozen=True, kw_only=True):
    """Hazards that the same delays decide, the worst first.

    They have the same modules at several places, or in several processes.
    """

    hazards: tuple[Hazard, ...]

    @property
    def worst(self) -> Hazard:
        """The hazard that stands for all."""
        return self.hazards[0]

    @property
    def has_fired(self) -> bool:
        """Whether one of them did harm without any delay."""
        return self.worst.closeness is Closeness.FIRED

    @property
    def was_handed_out(self) -> bool:
        """Whether one of them happened without any delay, with or without harm."""
        return self.worst.closeness in {Closeness.FIRED, Closeness.HANDED_OUT}


def grouped(hazards: Iterable[Hazard]) -> tuple[RaceCandidate, ...]:
    """The hazards of all processes by what decides them, the worst first."""
    groups: dict[tuple[object, ...], list[Hazard]] = {}
    for hazard in sorted(hazards, key=badness):
        delays = [(hold.mode, hold.x, hold.y) for hold in holds(hazard)]
        # Without the limits: how long to wait differs from place to place.
        groups.setdefault((hazard.kind, hazard.modules, *delays), []).append(hazard)
    return tuple(RaceCandidate(hazards=tuple(group)) for group in groups.values())
