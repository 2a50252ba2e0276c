# SPDX-License-Identifier: Apache-2.0
"""Every hazard of imports in a recorded process, worst first. Pure."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.imports.analyse.crossed import avoided, crossed
from ci_doctor.imports.analyse.forest import Forest, ForestBuilder
from ci_doctor.imports.analyse.graph import Graph
from ci_doctor.imports.analyse.hazard import Closeness, Hazard, HazardKind, Import
from ci_doctor.imports.analyse.history import History
from ci_doctor.imports.analyse.locks import ComparisonBudget, crossings
from ci_doctor.imports.analyse.replaced import (
    failed_hazards,
    handed_out,
    replaced_hazards,
    replaced_modules,
)
from ci_doctor.imports.record.trace import RecordedProcess

__all__ = ["Closeness", "Hazard", "HazardKind", "Import", "ProcessHazards", "find_hazards"]

# About half a second each; a program reaches them only with thousands of modules in dozens of threads.
_VISITS = 400_000
_COMPARISONS = 600_000
# Threads that ask for the same modules at the same lines, in the same order, are taken to behave alike.
_ALIKE = 3
_RANKS = {closeness: rank for rank, closeness in enumerate(Closeness)}


class ProcessHazards(Struct, frozen=True, kw_only=True):
    """The hazards of a process; `is_whole` is False where not all that could meet was compared, so that there may be more."""

    hazards: tuple[Hazard, ...] = ()
    is_whole: bool = True


def find_hazards(process: RecordedProcess) -> ProcessHazards:
    """The hazards of `process`, FIRED first, then NEAR, then LATENT, the closest first.

    Of one module that replaces itself, one hazard is told for each two places; of one group of modules that need each
    other, the closest. Where a bound was reached, the `detail` of each says so.
    """
    history = History(process)
    if len(history.entries) < 2:
        return ProcessHazards()
    graph = Graph(history)
    wanted = graph.grouped | graph.bits(replaced_modules(history))
    grower = ForestBuilder(history, graph, wanted, _VISITS)
    replacing, crossing = ComparisonBudget(_COMPARISONS), ComparisonBudget(_COMPARISONS)
    forests = _forests(history, grower)
    found = [
        *handed_out(history),
        *replaced_hazards(history, forests, replacing),
        *failed_hazards(history),
        *avoided(history, graph),
        *_crossed(history, forests, graph, crossing),
    ]
    closest = _one_each(
        _one_each(sorted(found, key=_badness), _places), lambda hazard: _group(hazard, graph)
    )
    if grower.is_cut or replacing.are_short or crossing.are_short:
        told = tuple(replace(hazard, detail=f"{hazard.detail}; {_bound()}") for hazard in closest)
        return ProcessHazards(hazards=told, is_whole=False)
    return ProcessHazards(hazards=tuple(closest))


def _bound() -> str:
    return f"there may be more: not all of what could meet was compared ({_VISITS} imports, {_COMPARISONS} pairs)"


def _forests(history: History, grower: ForestBuilder) -> list[Forest]:
    """What each thread would take; of threads that do the same, a few."""
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for n, entries in history.entries.items():
        settled = [grower.progress.before(entry).loaded & grower.wanted for entry in entries]
        alike[
            tuple(
                (entry.site, entry.name, bits) for entry, bits in zip(entries, settled, strict=True)
            )
        ].append(n)
    # A thread that did load something, or waited, tells more than one that found everything done.
    acted = {load.begin.n for loads in history.executed.values() for load in loads} | {
        n for n, _ in history.waits
    }
    forests = []
    for threads in alike.values():
        for n in sorted(threads, key=lambda n: (n not in acted, history.entries[n][0].t))[:_ALIKE]:
            forests += [forest for forest in _grown(grower, n) if forest.taken]
    return forests


def _grown(grower: ForestBuilder, n: int) -> Iterator[Forest]:
    yield grower.grow(n)
    skipping = grower.grow(n, skipping=True)
    if skipping.skipped:
        yield skipping


def _crossed(
    history: History, forests: list[Forest], graph: Graph, steps: ComparisonBudget
) -> Iterator[Hazard]:
    for index, one in enumerate(forests):
        for two in forests[index + 1 :]:
            if one.n == two.n or (one.skipping and two.skipping):
                continue
            waiting, other = (two, one) if one.skipping else (one, two)
            simplest: dict[Hashable, Hazard] = {}
            # The shortest of each group and two places: what is told is what a person can follow.
            for crossing in sorted(
                crossings(waiting, other, graph, steps), key=lambda crossing: crossing.length
            ):
                group = graph.group[graph.number[crossing.has_one.name]]
                key = (group, crossing.has_one.entry.site, crossing.has_two.entry.site)
                if key not in simplest:
                    simplest[key] = crossed(history, crossing)
            yield from simplest.values()


def _badness(hazard: Hazard) -> tuple[int, bool, int, int]:
    margin_ns = hazard.margin_ns
    is_known = margin_ns is not None
    return (
        _RANKS[hazard.closeness],
        not is_known,
        abs(margin_ns or 0),
        len(hazard.first.chain) + len(hazard.second.chain),
    )


def _places(hazard: Hazard) -> Hashable:
    if hazard.pair is None:
        return hazard.kind, hazard.modules, frozenset({hazard.first.site, hazard.second.site})
    return hazard.kind, frozenset(hazard.pair), hazard.first.chain[0], hazard.second.chain[0]


def _group(hazard: Hazard, graph: Graph) -> Hashable:
    """What is told once: one place of the harmed import, or a whole group of modules."""
    if hazard.pair is None:
        return hazard.kind, hazard.modules, hazard.second.site
    numbers = [graph.number[name] for name in hazard.pair if name in graph.number]
    return graph.group[numbers[0]] if numbers else hazard.pair


def _one_each(hazards: Iterable[Hazard], key: Callable[[Hazard], Hashable]) -> list[Hazard]:
    """The first of each key."""
    first: dict[Hashable, Hazard] = {}
    for hazard in hazards:
        first.setdefault(key(hazard), hazard)
    return list(first.values())
