# SPDX-License-Identifier: Apache-2.0
"""Pure. Every import hazard of the processes of a run, the worst first."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.imports.crossings import (
    ComparisonBudget,
    avoided_deadlocks,
    crossing_hazard,
    crossings,
)
from ci_doctor.imports.hazard import Closeness, Hazard, HazardKind, badness, harms
from ci_doctor.imports.history import History
from ci_doctor.imports.locks import Forest, ForestBuilder, Graph
from ci_doctor.imports.one_module import (
    failed_hazards,
    reload_hazards,
    replaced_hazards,
    replaced_modules,
    wrong_objects,
)
from ci_doctor.imports.trace import RecordedProcess, RecordedRun

# About half a second each. Only programs with thousands of modules in dozens of threads get there.
_VISITS = 400_000
_COMPARISONS = 600_000
# Of threads that make the same requests at the same lines, in the same order, a few are enough.
_ALIKE = 3


class ProcessHazards(Struct, frozen=True, kw_only=True):
    """The hazards of a process.

    is_whole: False if the comparison stopped at a bound, so that there may be more.
    """

    hazards: tuple[Hazard, ...] = ()
    is_whole: bool = True


def find_hazards(process: RecordedProcess) -> ProcessHazards:
    """The hazards of `process`, the worst first.

    Of a module that replaces itself there is one hazard for each two places; of a group of modules
    that need each other, the closest one. If a bound was reached, the `detail` of each says so.
    """
    history = History(process)
    # One importing thread races with nobody. Most processes end here.
    if len(history.entries) < 2:
        return ProcessHazards()
    graph = Graph(history)
    wanted = graph.grouped | graph.bits(replaced_modules(history))
    builder = ForestBuilder(history, graph, wanted, _VISITS)
    # One each, so that many self-replacing modules do not hide the cycles, nor the other way round.
    replacing = ComparisonBudget(_COMPARISONS)
    crossing = ComparisonBudget(_COMPARISONS)
    forests = _forests(history, builder)
    hazards = [
        *wrong_objects(history),
        *replaced_hazards(history, forests, replacing),
        *failed_hazards(history),
        *reload_hazards(history),
        *avoided_deadlocks(history, graph),
        *_crossed(history, forests, graph, crossing),
    ]
    hazards = [_with_harm(hazard, process) for hazard in hazards]
    # The worst first, so that it is the one that stands for its places and for its group.
    hazards.sort(key=_badness)
    hazards = _first_of_each(hazards, _places)
    hazards = _first_of_each(hazards, lambda hazard: _group(hazard, graph))
    is_whole = not (builder.is_cut or replacing.is_exhausted or crossing.is_exhausted)
    if not is_whole:
        hazards = list(map(_with_bound, hazards))
    return ProcessHazards(hazards=tuple(hazards), is_whole=is_whole)


def _with_harm(hazard: Hazard, process: RecordedProcess) -> Hazard:
    """`hazard`, FIRED if what was handed out did harm."""
    if hazard.closeness is Closeness.HANDED_OUT and any(harms(hazard, (process,))):
        return replace(hazard, closeness=Closeness.FIRED)
    return hazard


def _with_bound(hazard: Hazard) -> Hazard:
    bound = (
        "there may be more: not all of what could meet was compared "
        f"({_VISITS} imports, {_COMPARISONS} pairs)"
    )
    return replace(hazard, detail=f"{hazard.detail}; {bound}")


def _forests(history: History, builder: ForestBuilder) -> list[Forest]:
    """What each thread would take; of threads that behave alike, a few."""
    active = {n for n, _ in history.waits}
    for loads in history.executed.values():
        for load in loads:
            active.add(load.n)
    forests: list[Forest] = []
    for threads in _alike(history, builder):
        # A thread that loaded something, or waited, shows more than one that found all of it done.
        threads.sort(key=lambda n: (n not in active, history.entries[n][0].t))
        for n in threads[:_ALIKE]:
            forests += _of_thread(builder, n)
    return forests


def _alike(history: History, builder: ForestBuilder) -> Iterable[list[int]]:
    """The threads, grouped by what they request and what is loaded by then."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for n, entries in history.entries.items():
        behaviour = []
        for entry in entries:
            before = builder.progress.before(entry)
            # What is not wanted differs from thread to thread, and changes no lock tree.
            loaded = before.loaded & builder.wanted
            behaviour.append((entry.site, entry.name, loaded))
        groups[tuple(behaviour)].append(n)
    return groups.values()


def _of_thread(builder: ForestBuilder, n: int) -> Iterator[Forest]:
    waiting = builder.build(n)
    if waiting.taken:
        yield waiting
    # The same thread if another one has begun the packages: then it takes fewer locks, and can
    # meet the other one at places where it would have waited.
    skipping = builder.build(n, skipping=True)
    if skipping.skipped and skipping.taken:
        yield skipping


def _crossed(
    history: History, forests: Sequence[Forest], graph: Graph, budget: ComparisonBudget
) -> Iterator[Hazard]:
    for index, first in enumerate(forests):
        for second in forests[index + 1 :]:
            # Of two threads that skip the same package, neither loads it.
            if first.n == second.n or (first.skipping and second.skipping):
                continue
            if first.skipping:
                yield from _simplest(history, second, first, graph, budget)
            else:
                yield from _simplest(history, first, second, graph, budget)


def _simplest(
    history: History, waiting: Forest, other: Forest, graph: Graph, budget: ComparisonBudget
) -> Iterator[Hazard]:
    """The shortest crossing of each group and two places: one that a person can follow."""
    reported: set[Hashable] = set()
    possible = crossings(waiting, other, graph, budget)
    for crossing in sorted(possible, key=lambda crossing: crossing.depth):
        first = crossing.first_holds
        second = crossing.second_holds
        group = graph.group[graph.number[first.name]]
        key = group, first.entry.site, second.entry.site
        if key not in reported:
            reported.add(key)
            yield crossing_hazard(history, crossing)


def _badness(hazard: Hazard) -> tuple[tuple[int, bool, int], int]:
    """Of equally bad hazards the one with the shortest chains first."""
    statements = len(hazard.first.chain) + len(hazard.second.chain)
    return badness(hazard), statements


def _places(hazard: Hazard) -> Hashable:
    """What is the same for two hazards of the same modules at the same places."""
    # Sets: which of the two threads comes first differs from one pair of threads to another.
    first = hazard.first
    second = hazard.second
    if hazard.pair is None:
        sites = frozenset({first.site, second.site})
        return hazard.kind, hazard.modules, sites
    return hazard.kind, frozenset(hazard.pair), first.chain[0], second.chain[0]


def _group(hazard: Hazard, graph: Graph) -> Hashable:
    """What is reported once: one place of the second import, or a whole group of modules."""
    if hazard.pair is None:
        return hazard.kind, hazard.modules, hazard.second.site
    for name in hazard.pair:
        number = graph.number.get(name)
        if number is not None:
            return graph.group[number]
    return hazard.pair


def _first_of_each(hazards: Iterable[Hazard], key: Callable[[Hazard], Hashable]) -> list[Hazard]:
    """The first hazard of each key."""
    first: dict[Hashable, Hazard] = {}
    for hazard in hazards:
        first.setdefault(key(hazard), hazard)
    return list(first.values())


class RunHazards(Struct, frozen=True, kw_only=True):
    """The hazards of all processes; `spared` are those that an immune interpreter does not have.

    is_whole: False if the comparison of a process stopped at a bound.
    """

    hazards: tuple[Hazard, ...]
    spared: tuple[Hazard, ...]
    is_whole: bool


def find_in_all(recorded: RecordedRun, interpreters: Mapping[str, bool | None]) -> RunHazards:
    """The hazards of all processes together; `interpreters` as `check_interpreters` returns it."""
    hazards: list[Hazard] = []
    spared: list[Hazard] = []
    is_whole = True
    for process in recorded.processes:
        # Not None: an interpreter that could not be checked may be exposed.
        is_immune = interpreters.get(process.executable) is False
        in_process = find_hazards(process)
        is_whole = is_whole and in_process.is_whole
        for hazard in in_process.hazards:
            if is_immune and hazard.kind is HazardKind.REPLACED:
                spared.append(hazard)
            else:
                hazards.append(hazard)
    return RunHazards(hazards=tuple(hazards), spared=tuple(spared), is_whole=is_whole)
