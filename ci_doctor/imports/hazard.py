# SPDX-License-Identifier: Apache-2.0
"""Pure. What an import hazard is, how close it came, and what harm it did."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from ci_doctor.imports.trace import (
    Deadlock,
    End,
    ImportEvent,
    Missing,
    RecordedProcess,
    RecordedThread,
    Site,
    Wait,
)


class HazardKind(StrEnum):
    """Why two threads can break an import. CPython's module locks make every other case safe.

    REPLACED: the module puts another object into `sys.modules` while its code runs; a thread that
    waits for it receives the discarded object. CYCLE: each thread holds a module that the other one
    needs. SUBMODULE: the same for a package that imports its submodule, and the submodule, which
    needs its package first. FAILED: the import fails, and a thread that waits for it receives the
    incomplete module. RELOAD: `importlib.reload` executes the module again, which no lock keeps
    from a thread that uses it.
    """

    REPLACED = "self-replacing package"
    CYCLE = "import cycle"
    SUBMODULE = "submodule order"
    FAILED = "failed import"
    RELOAD = "reload"


class Closeness(StrEnum):
    """How close two imports came in the recorded run.

    FIRED: it did harm. HANDED_OUT: a thread received a wrong module, and missed nothing in it.
    NEAR: the imports overlapped. LATENT: nothing orders them.
    """

    FIRED = "fired"
    HANDED_OUT = "handed out"
    NEAR = "near"
    LATENT = "latent"


class Import(Struct, frozen=True, kw_only=True):
    """One thread's import of module `name` at `site`.

    chain: the statements from the outermost one to `site`; each one loads the module that contains
    the next one. began_ns: when the thread requested the module. ended_ns: when the module was
    loaded; None if that is not known. names: the from-list. thread_started_at: where the thread was
    started; None for the first thread.
    """

    thread: str
    name: str
    site: Site
    chain: tuple[Site, ...]
    began_ns: int
    ended_ns: int | None
    names: tuple[str, ...] = ()
    thread_started_at: Site | None = None


class Hazard(Struct, frozen=True, kw_only=True):
    """Two imports of process `pid` that must not meet.

    first: the import that loads the module. second: the import that fails if they meet. margin_ns:
    the time from the end of the first's loading to the second's request; negative if they
    overlapped, None if the end is not known. pair: the modules whose locks the first and the second
    hold; None if only one module is involved. detail: how close it was, in a sentence.
    """

    kind: HazardKind
    closeness: Closeness
    pid: int
    modules: tuple[str, ...]
    first: Import
    second: Import
    margin_ns: int | None
    pair: tuple[str, str] | None
    detail: str


_RANKS = {closeness: rank for rank, closeness in enumerate(Closeness)}


def badness(hazard: Hazard) -> tuple[int, bool, int]:
    """The sort key of "worst first", in the order of `Closeness`; then by the smallest margin.

    An unknown margin comes after the known ones.
    """
    distance_ns = abs(hazard.margin_ns or 0)
    return _RANKS[hazard.closeness], hazard.margin_ns is None, distance_ns


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
    for process in processes:
        for event in process.events:
            if _hands_out(hazard, event):
                return True
    return False


def _hands_out(hazard: Hazard, event: ImportEvent) -> bool:
    modules = hazard.modules
    match hazard.kind:
        case HazardKind.REPLACED:
            return _received(event, "replaced") in modules
        case HazardKind.FAILED:
            return _received(event, "removed") in modules
        case _:
            return isinstance(event, Deadlock) and _is_own(hazard, event)


def _received(event: ImportEvent, outcome: str) -> str | None:
    """The module of which a thread received a wrong object in this way, if `event` says so."""
    if isinstance(event, Wait) and event.outcome == outcome:
        return event.name
    return None


def _is_own(hazard: Hazard, event: Deadlock) -> bool:
    """Whether both locks are of this hazard: the one that is wanted and one that is held."""
    modules = hazard.modules
    return event.name in modules and not set(modules).isdisjoint(event.held)


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
        case Deadlock(raised=True) if _is_own(hazard, event):
            return HarmKind.DEADLOCK_ERROR
        case Wait() if hazard.kind is HazardKind.FAILED and _hands_out(hazard, event):
            return HarmKind.UNFINISHED_MODULE
        case _:
            return None


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
