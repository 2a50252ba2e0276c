# SPDX-License-Identifier: Apache-2.0
"""Pure. Every import hazard of the processes of a run, the worst first."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.imports.hazard import ProcessImports, badness
from ci_doctor.imports.history import History
from ci_doctor.imports.kinds import KINDS, harms, kind_of
from ci_doctor.imports.locks import ComparisonBudget, Forest, ForestBuilder, Graph
from ci_doctor.imports.one_module import replaced_modules
from ci_doctor.imports.trace import RecordedProcess, RecordedRun
from ci_doctor.model.facts.import_race import Closeness, Hazard

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
    found = ProcessImports(
        history=history,
        graph=graph,
        forests=_forests(history, builder),
        replacing=ComparisonBudget(_COMPARISONS),
        crossing=ComparisonBudget(_COMPARISONS),
    )
    finders = dict.fromkeys(kind.find for kind in KINDS.values())
    hazards = [_with_harm(hazard, process) for find in finders for hazard in find(found)]
    # The worst first, so that it is the one that stands for its places and for its group.
    hazards.sort(key=_badness)
    hazards = _first_of_each(hazards, _places)
    hazards = _first_of_each(hazards, lambda hazard: _group(hazard, graph))
    is_whole = not (builder.is_cut or found.replacing.is_exhausted or found.crossing.is_exhausted)
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
            if is_immune and kind_of(hazard).has_fix:
                spared.append(hazard)
            else:
                hazards.append(hazard)
    return RunHazards(hazards=tuple(hazards), spared=tuple(spared), is_whole=is_whole)
