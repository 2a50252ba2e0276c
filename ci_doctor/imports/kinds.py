# SPDX-License-Identifier: Apache-2.0
"""Pure. All kinds of import hazards, whether one happened, and what harm it did: the names that were missing.

A hazard happens if a thread is handed an incomplete module, or a discarded one. That is harmless as
long as the thread finds in it what it reads.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from ci_doctor.imports.crossings import CYCLE, SUBMODULE, is_own
from ci_doctor.imports.hazard import HazardKind
from ci_doctor.imports.one_module import COPIED, FAILED, RELOAD, REPLACED
from ci_doctor.imports.trace import (
    Deadlock,
    End,
    ImportEvent,
    Missing,
    RecordedProcess,
    RecordedThread,
)
from ci_doctor.model.facts.import_race import Hazard, Site

KINDS: Final = {kind.name: kind for kind in (REPLACED, CYCLE, SUBMODULE, FAILED, RELOAD, COPIED)}


def kind_of(hazard: Hazard) -> HazardKind:
    """The kind that its name means."""
    return KINDS[hazard.kind]


class HarmKind(StrEnum):
    """What went wrong.

    MISSING_NAME: a thread read a name that the complete module has. DEADLOCK_ERROR: an import ended
    with importlib's `_DeadlockError`. UNFINISHED_MODULE: an import received a module whose own
    import had failed, instead of the error.
    """

    MISSING_NAME = "missing name"
    DEADLOCK_ERROR = "deadlock error"
    UNFINISHED_MODULE = "unfinished module"


class Harm(Struct, frozen=True, kw_only=True):
    """One thing that went wrong in `thread` with module `name`.

    attribute and site: the missing name and where it was read; None for the other kinds.
    """

    kind: HarmKind
    thread: str
    name: str
    attribute: str | None = None
    site: Site | None = None


def was_handed_out(hazard: Hazard, processes: Iterable[RecordedProcess]) -> bool:
    """Whether a thread received a wrong object, or CPython let it continue without its lock."""
    hands_out = kind_of(hazard).hands_out
    return any(hands_out(hazard, event) for process in processes for event in process.events)


def harms(hazard: Hazard, processes: Iterable[RecordedProcess]) -> Iterator[Harm]:
    """What went wrong with the modules of `hazard`, in the order in which it happened."""
    for process in processes:
        for event in process.events:
            kind = _kind(hazard, event, process)
            if kind is not None:
                yield _harm(kind, event, process.threads)


def _kind(hazard: Hazard, event: ImportEvent, process: RecordedProcess) -> HarmKind | None:
    match event:
        case Missing() if event.name in hazard.modules:
            # The complete module does not have the name either: nothing was missed.
            if (event.name, event.attribute) in process.absent:
                return None
            return HarmKind.MISSING_NAME
        case Deadlock(raised=True) if is_own(hazard, event):
            return HarmKind.DEADLOCK_ERROR
        case _:
            kind = kind_of(hazard)
            is_harm = kind.is_harm and kind.hands_out(hazard, event)
            return HarmKind.UNFINISHED_MODULE if is_harm else None


def _harm(kind: HarmKind, event: ImportEvent, threads: Mapping[int, RecordedThread]) -> Harm:
    thread = threads[event.n].name
    if isinstance(event, Missing):
        return Harm(
            kind=kind,
            thread=thread,
            name=event.name,
            attribute=event.attribute,
            site=event.site,
        )
    return Harm(kind=kind, thread=thread, name=str(getattr(event, "name", "")))


def newly_failed(
    recorded: Iterable[RecordedProcess], held: Iterable[RecordedProcess]
) -> tuple[str, ...]:
    """The modules that were loaded in the run `recorded` and only failed in the run `held`."""
    fine = _ended(recorded, {"loaded"}) - _ended(recorded, {"failed", "missing"})
    broken = _ended(held, {"failed", "missing"})
    return tuple(sorted(fine & broken))


def _ended(processes: Iterable[RecordedProcess], statuses: set[str]) -> set[str]:
    names = set()
    for process in processes:
        for event in process.events:
            if isinstance(event, End) and event.status in statuses:
                names.add(event.name)
    return names
