# SPDX-License-Identifier: Apache-2.0
"""Pure. Every import hazard of the processes of a run, the worst first; whether one happened, and what harm it did.

A hazard happens if a thread is handed an incomplete module, or a discarded one. That is harmless as
long as the thread finds in it what it reads.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.imports.crossings import (
    CYCLE,
    SUBMODULE,
    HazardKind,
    ProcessImports,
    badness,
    is_own,
)
from ci_doctor.imports.locks import ComparisonBudget, Forest, ForestBuilder, Graph, History
from ci_doctor.imports.one_module import COPIED, FAILED, RELOAD, REPLACED, replaced_modules
from ci_doctor.imports.trace import (
    Deadlock,
    End,
    Missing,
    RecordedProcess,
    RecordedRun,
    Wait,
)
from ci_doctor.model.facts.import_race import Closeness, Hazard

KINDS: Final = {kind.name: kind for kind in (REPLACED, CYCLE, SUBMODULE, FAILED, RELOAD, COPIED)}


def kind_of(hazard: Hazard) -> HazardKind:
    """The kind that its name means."""
    return KINDS[hazard.kind]


def was_handed_out(hazard: Hazard, processes: Iterable[RecordedProcess]) -> bool:
    """Whether a thread received a wrong object, or CPython let it continue without its lock."""
    hands_out = kind_of(hazard).hands_out
    return any(hands_out(hazard, event) for process in processes for event in process.events)


def harms(
    hazard: Hazard, processes: Iterable[RecordedProcess]
) -> Iterator[tuple[str, Missing | Deadlock | Wait]]:
    """What went wrong with the modules of `hazard`, in the order in which it happened: the thread, and the event.

    It read a name that the complete module has, its import ended with importlib's `_DeadlockError`,
    or it received a module whose own import had failed, instead of the error.
    """
    kind = kind_of(hazard)
    for process in processes:
        for event in process.events:
            match event:
                case Missing():
                    # The complete module does not have the name either: nothing was missed.
                    is_absent = (event.name, event.attribute) in process.absent
                    is_harm = event.name in hazard.modules and not is_absent
                case Deadlock(raised=True):
                    is_harm = is_own(hazard, event)
                case Wait():
                    is_harm = kind.is_harm and kind.hands_out(hazard, event)
                case _:
                    continue
            if is_harm:
                yield process.threads[event.n].name, event


def did_harm(hazard: Hazard, processes: Iterable[RecordedProcess]) -> bool:
    """Whether the events of a run show that the hazard did harm."""
    return any(True for _ in harms(hazard, processes))


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


# About half a second each. Only programs with thousands of modules in dozens of threads get there.
_VISITS = 400_000
_COMPARISONS = 600_000
# Of threads that make the same requests at the same lines, in the same order, a few are enough.
_ALIKE = 3
_BOUND: Final = (
    "there may be more: not all of what could meet was compared "
    f"({_VISITS} imports, {_COMPARISONS} pairs)"
)


class FoundHazards(Struct, frozen=True, kw_only=True):
    """The hazards of a process, or of all.

    is_whole: False if the comparison stopped at a bound, so that there may be more.
    """

    hazards: tuple[Hazard, ...] = ()
    is_whole: bool = True


def find_hazards(process: RecordedProcess) -> FoundHazards:
    """The hazards of `process`, the worst first.

    Of a module that replaces itself there is one hazard for each two places; of a group of modules
    that need each other, the closest one. If a bound was reached, the `detail` of each says so.
    """
    # One thread races with nobody. Most processes end here.
    if len(process.threads) < 2:
        return FoundHazards()
    history = History(process)
    graph = Graph(history)
    wanted = graph.grouped | graph.union(replaced_modules(history))
    builder = ForestBuilder(history, graph, wanted, _VISITS)
    found = ProcessImports(
        history=history,
        graph=graph,
        forests=list(_forests(history, builder)),
        replacing=ComparisonBudget(_COMPARISONS),
        crossing=ComparisonBudget(_COMPARISONS),
    )
    finders = dict.fromkeys(kind.find for kind in KINDS.values())
    hazards = []
    for hazard in (hazard for find in finders for hazard in find(found)):
        has_fired = hazard.closeness is Closeness.HANDED_OUT and did_harm(hazard, (process,))
        hazards.append(replace(hazard, closeness=Closeness.FIRED) if has_fired else hazard)
    # The worst first, so that it is the one that stands for its places and for its group. Of
    # equally bad ones the one with the shortest chains.
    hazards.sort(key=lambda each: (badness(each), len(each.first.chain) + len(each.second.chain)))
    for key in (_places, _reported_once):
        first: dict[Hashable, Hazard] = {}
        for hazard in hazards:
            first.setdefault(key(hazard, graph), hazard)
        hazards = list(first.values())
    is_whole = not (builder.is_cut or found.replacing.is_exhausted or found.crossing.is_exhausted)
    if not is_whole:
        hazards = [replace(each, detail=f"{each.detail}; {_BOUND}") for each in hazards]
    return FoundHazards(hazards=tuple(hazards), is_whole=is_whole)


def _forests(history: History, builder: ForestBuilder) -> Iterator[Forest]:
    """What each thread would take; of threads that behave alike, a few."""
    active = {n for n, _ in history.waits}
    active.update(load.n for loads in history.executed.values() for load in loads)
    # The threads by what they request and what is loaded by then. What is not wanted differs from
    # thread to thread, and changes no lock tree.
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for n, entries in history.entries.items():
        behaviour = [
            (entry.site, entry.name, builder.progress.before(entry)[0] & builder.wanted)
            for entry in entries
        ]
        alike[tuple(behaviour)].append(n)
    for threads in alike.values():
        # A thread that loaded something, or waited, shows more than one that found all of it done.
        threads.sort(key=lambda n: (n not in active, history.entries[n][0].t))
        for n in threads[:_ALIKE]:
            waiting = builder.build(n)
            if waiting.taken:
                yield waiting
            # The same thread if another one has begun the packages: then it takes fewer locks, and
            # can meet the other one at places where it would have waited.
            skipping = builder.build(n, skipping=True)
            if skipping.skipped and skipping.taken:
                yield skipping


def _places(hazard: Hazard, _: Graph) -> Hashable:
    """What is the same for two hazards of the same modules at the same places."""
    # Sets: which of the two threads comes first differs from one pair of threads to another.
    first = hazard.first
    second = hazard.second
    if hazard.pair is None:
        return hazard.kind, hazard.modules, frozenset({first.site, second.site})
    return hazard.kind, frozenset(hazard.pair), first.chain[0], second.chain[0]


def _reported_once(hazard: Hazard, graph: Graph) -> Hashable:
    """What is reported once: one place of the second import, or a whole group of modules."""
    if hazard.pair is None:
        return hazard.kind, hazard.modules, hazard.second.site
    return next((graph.reach[name] for name in hazard.pair if name in graph.reach), hazard.pair)


def find_in_all(recorded: RecordedRun, interpreters: Mapping[str, bool | None]) -> FoundHazards:
    """The hazards of all processes together, without those that an immune interpreter does not have.

    `interpreters` as `check_interpreters` returns it.
    """
    hazards: list[Hazard] = []
    is_whole = True
    for process in recorded.processes:
        # Not None: an interpreter that could not be checked may be exposed.
        is_immune = interpreters.get(process.executable) is False
        in_process = find_hazards(process)
        is_whole = is_whole and in_process.is_whole
        hazards += [
            each for each in in_process.hazards if not (is_immune and kind_of(each).has_fix)
        ]
    return FoundHazards(hazards=tuple(hazards), is_whole=is_whole)
