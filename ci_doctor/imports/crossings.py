# SPDX-License-Identifier: Apache-2.0
"""Pure. Two threads that each hold a module lock which the other one needs."""

from collections.abc import Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from ci_doctor.imports.hazard import HazardKind, Hold, ProcessImports, limit_s
from ci_doctor.imports.history import History, Load
from ci_doctor.imports.locks import ComparisonBudget, Forest, Graph, LockNode
from ci_doctor.imports.trace import Ask, Deadlock, ImportEvent
from ci_doctor.model.facts.import_race import Closeness, Hazard, Import, Site
from ci_doctor.model.finding import Rule, Severity
from ci_doctor.render.formatting import duration


def import_of_ask(history: History, ask: Ask) -> Import:
    """The import that `ask` is a record of."""
    return _import_at(history, ask.n, ask.name, ask, history.chain(ask), ask.t)


def import_of_node(history: History, n: int, node: LockNode) -> Import:
    """The import by which thread `n` would load `node` if it came first."""
    asks = node.asks()
    innermost = asks[-1]
    # What is inside another thread's load has that thread's time: take the time of the own request.
    own = node.entry
    if innermost.n == n:
        own = innermost
    chain = _without_repeats(ask.site for ask in asks)
    return _import_at(history, n, node.name, innermost, chain, own.t)


def _without_repeats(sites: Iterable[Site]) -> tuple[Site, ...]:
    # `import a.b` is several requests of one line.
    chain: list[Site] = []
    for site in sites:
        if not chain or chain[-1] != site:
            chain.append(site)
    return tuple(chain)


def _import_at(
    history: History, n: int, name: str, ask: Ask, chain: tuple[Site, ...], began_ns: int
) -> Import:
    thread = history.process.threads[n]
    load = history.load_by(n, name)
    ended_ns = None
    if load is not None:
        ended_ns = load.ended_ns
    # The from-list is of what the statement requests, which may be an outer module.
    names: tuple[str, ...] = ()
    if ask.name == name:
        names = ask.names
    return Import(
        thread=thread.name,
        name=name,
        site=ask.site,
        chain=chain,
        began_ns=began_ns,
        ended_ns=ended_ns,
        names=names,
        thread_started_at=thread.started_at,
    )


def margin(load: Load | None, ask_ns: int) -> int | None:
    """Nanoseconds from the end of `load` to the request; None if the end is not known."""
    if load is None or load.ended_ns is None:
        return None
    return ask_ns - load.ended_ns


def overlap(load: Load | None, ask_ns: int) -> Closeness:
    """NEAR if the request came while the module was being loaded, else LATENT."""
    if load is not None and ask_ns in load:
        return Closeness.NEAR
    return Closeness.LATENT


def how_close(margin_ns: int | None) -> str:
    """`margin_ns` as a sentence without its full stop."""
    if margin_ns is None:
        return "it is not recorded when the first import ended"
    gap = duration(abs(margin_ns) / 1e9)
    if margin_ns < 0:
        return f"the second import came {gap} before the first had ended"
    return f"the second import came {gap} after the first had ended"


class Crossing(Struct, frozen=True, kw_only=True):
    """Each thread holds a module that the other one wants.

    So `first_holds` and `second_wants` are the same module, and so are `second_holds` and
    `first_wants`. depth: locks held by both threads; shorter ones are reported first.
    """

    first_thread: Forest
    second_thread: Forest
    first_holds: LockNode
    first_wants: LockNode
    second_holds: LockNode
    second_wants: LockNode
    depth: int


def crossings(
    first: Forest, second: Forest, graph: Graph, budget: ComparisonBudget
) -> Iterator[Crossing]:
    """All crossings in which both threads can be at the same time.

    `first` waits for the packages that it needs, `second` may skip them.
    """
    for first_wants, second_holds in _taken_by_both(first, second, graph):
        for first_holds in first_wants.held():
            if not budget.take(1):
                return
            second_wants = second.taken.get(first_holds.name)
            # The other way round: `second` must take it while it holds what `first` needs.
            if second_wants is None or not second_holds.holds(second_wants):
                continue
            depth, can_meet = _meeting(first_wants, second_wants, first, second)
            # Counted after the fact: the depth is not known before.
            budget.take(depth)
            if can_meet:
                yield Crossing(
                    first_thread=first,
                    second_thread=second,
                    first_holds=first_holds,
                    first_wants=first_wants,
                    second_holds=second_holds,
                    second_wants=second_wants,
                    depth=depth,
                )


def _taken_by_both(
    first: Forest, second: Forest, graph: Graph
) -> Iterator[tuple[LockNode, LockNode]]:
    """The modules that both threads take and no gate lock protects."""
    for first_node in first.taken.values():
        second_node = second.taken.get(first_node.name)
        # Only the modules of a cycle can be taken in opposite orders.
        is_in_cycle = bool(graph.grouped & graph.bit(first_node.name))
        if second_node is None or not is_in_cycle:
            continue
        if not _share_gate(first_node, second_node):
            yield first_node, second_node


def _share_gate(first: LockNode, second: LockNode) -> bool:
    """Whether both are taken within the same outermost module: its lock separates the threads."""
    # The gate is not the wanted module itself: that one is what they may fight for.
    if first.outermost is first or second.outermost is second:
        return False
    return first.outermost.name == second.outermost.name


def _meeting(
    first_wants: LockNode, second_wants: LockNode, first: Forest, second: Forest
) -> tuple[int, bool]:
    """How many modules were compared, and whether the two threads can meet there.

    They cannot if a lock that both hold separates them, or if one of them has already loaded what
    the other one holds. If they can, the number is that of the modules that both hold.
    """
    first_held = {node.name for node in first_wants.held()}
    second_held = []
    for node in second_wants.held():
        second_held.append(node.name)
        if node.name in first_held or _is_done(first, node.name, first_wants.at):
            return len(first_held) + len(second_held), False
    depth = len(first_held) + len(second_held)
    for name in first_held:
        if _is_done(second, name, second_wants.at):
            return depth, False
    if second.skipping:
        return depth, skips_into(second, [second_wants.name, *second_held], first_held)
    return depth, True


def _is_done(forest: Forest, name: str, at: int) -> bool:
    node = forest.taken.get(name)
    if node is None:
        return False
    return node.done < at


def skips_into(forest: Forest, chain: Iterable[str], held: AbstractSet[str]) -> bool:
    """Whether a module of `chain` is in a package that the other thread, holding `held`, loads.

    Only packages that `forest` skipped count: it did not wait for those.
    """
    for name in chain:
        package = name.rpartition(".")[0]
        if package in held and package in forest.skipped:
            return True
    return False


def crossing_hazard(history: History, crossing: Crossing) -> Hazard:
    """The hazard of two threads that can hold what the other one needs."""
    n = crossing.first_thread.n
    other = crossing.second_thread.n
    first = import_of_node(history, n, crossing.first_holds)
    second = import_of_node(history, other, crossing.second_holds)
    # A crossing has no first thread: the recording decides which import a reader sees first.
    if second.began_ns < first.began_ns:
        n = other
        first, second = second, first
    load = _load(history, n, first.name)
    margin_ns = margin(load, second.began_ns)
    is_unfinished = load is not None and load.end is None
    is_overlapping = margin_ns is not None and margin_ns < 0
    closeness = Closeness.LATENT
    if is_unfinished or is_overlapping:
        closeness = Closeness.NEAR
    return _hazard(history, closeness, (first, second), margin_ns, how_close(margin_ns))


def _load(history: History, n: int, name: str) -> Load | None:
    """How thread `n` loaded `name`; if it did not, the first load of any thread."""
    own = history.load_by(n, name)
    if own is not None:
        return own
    return next(iter(history.executed.get(name, ())), None)


def avoided_deadlocks(history: History, graph: Graph) -> Iterator[Hazard]:
    """HANDED_OUT: CPython let a thread continue without a lock that it needed."""
    for deadlock in history.deadlocks:
        held = _crossed_lock(deadlock, graph)
        second = _import(history, deadlock.n, held, deadlock)
        if second is None:
            continue
        # Without a known owner both sides show the place of the thread that gave up its wait.
        first = second
        margin_ns = None
        if deadlock.owner is not None:
            first = _import(history, deadlock.owner, deadlock.name, deadlock) or second
            load = history.load_by(deadlock.owner, deadlock.name)
            margin_ns = margin(load, second.began_ns)
        detail = (
            f"CPython avoided a deadlock: thread {second.thread} holds {held} "
            f"and went on without {deadlock.name}"
        )
        yield _hazard(history, Closeness.HANDED_OUT, (first, second), margin_ns, detail)


def _crossed_lock(deadlock: Deadlock, graph: Graph) -> str:
    """Which of the held modules the other thread wants.

    It is in the same group as the requested module. Without one, the innermost held module.
    """
    held = [name for name in deadlock.held if name != deadlock.name]
    for name in reversed(held):
        if _are_in_one_group(graph, name, deadlock.name):
            return name
    # Nothing else is held: the requested module has to stand for both.
    if not held:
        return deadlock.name
    return held[-1]


def _are_in_one_group(graph: Graph, one: str, other: str) -> bool:
    # A module loaded before a fork is not in the graph.
    first = graph.number.get(one)
    second = graph.number.get(other)
    if first is None or second is None:
        return False
    return graph.group[first] == graph.group[second]


def _import(history: History, n: int, name: str, deadlock: Deadlock) -> Import | None:
    """The import by which thread `n` came to `name`; if unknown, its latest outermost import."""
    own = history.asks.get((n, name), ())
    outermost = history.entries.get(n, ())
    for asks in (own, outermost):
        # By time, because the events of two threads have no common numbers.
        earlier = [ask for ask in asks if ask.t <= deadlock.t]
        if earlier:
            return import_of_ask(history, earlier[-1])
    return None


def _hazard(
    history: History,
    closeness: Closeness,
    imports: tuple[Import, Import],
    margin_ns: int | None,
    detail: str,
) -> Hazard:
    first, second = imports
    names = {first.name, second.name}
    # Packages before their submodules: the remedy imports the modules in this order.
    modules = tuple(sorted(names, key=lambda name: (name.count("."), name)))
    # The package contains the other one, or they only need each other.
    is_nested = modules[-1].startswith(modules[0] + ".")
    return Hazard(
        kind=(SUBMODULE if is_nested else CYCLE).name,
        closeness=closeness,
        pid=history.process.pid,
        modules=modules,
        first=first,
        second=second,
        margin_ns=margin_ns,
        pair=(first.name, second.name),
        detail=detail,
    )


def crossed_hazards(found: ProcessImports) -> Iterator[Hazard]:
    """Both kinds: the deadlocks that CPython avoided, and those that can happen."""
    yield from avoided_deadlocks(found.history, found.graph)
    yield from _crossed(found)


def _crossed(found: ProcessImports) -> Iterator[Hazard]:
    for index, first in enumerate(found.forests):
        for second in found.forests[index + 1 :]:
            # Of two threads that skip the same package, neither loads it.
            if first.n == second.n or (first.skipping and second.skipping):
                continue
            if first.skipping:
                yield from _simplest(found, second, first)
            else:
                yield from _simplest(found, first, second)


def _simplest(found: ProcessImports, waiting: Forest, other: Forest) -> Iterator[Hazard]:
    """The shortest crossing of each group and two places: one that a person can follow."""
    reported: set[Hashable] = set()
    graph = found.graph
    possible = crossings(waiting, other, graph, found.crossing)
    for crossing in sorted(possible, key=lambda crossing: crossing.depth):
        first = crossing.first_holds
        second = crossing.second_holds
        group = graph.group[graph.number[first.name]]
        key = group, first.entry.site, second.entry.site
        if key not in reported:
            reported.add(key)
            yield crossing_hazard(found.history, crossing)


def is_own(hazard: Hazard, event: Deadlock) -> bool:
    """Whether both locks are of this hazard: the one that is wanted and one that is held."""
    modules = hazard.modules
    return event.name in modules and not set(modules).isdisjoint(event.held)


def _hands_out(hazard: Hazard, event: ImportEvent) -> bool:
    return isinstance(event, Deadlock) and is_own(hazard, event)


def _delays(hazard: Hazard) -> tuple[Hold, ...]:
    limit = limit_s(hazard)
    x, y = hazard.pair or (hazard.modules[0], hazard.modules[-1])
    # `late` decides which thread gives up its wait: CPython lets the later one continue, and only
    # one of the two may be harmed by that.
    return (
        Hold(mode="together", x=x, y=y, limit_s=limit),
        Hold(mode="late", x=x, y=y, limit_s=limit),
        Hold(mode="late", x=y, y=x, limit_s=limit),
    )


# Each thread holds a module that the other one needs.
CYCLE: Final = HazardKind(
    name="import cycle",
    find=crossed_hazards,
    what="{all} import each other",
    delays=_delays,
    hands_out=_hands_out,
    rule=Rule(
        id="import-race/cycle",
        severity=Severity.WARNING,
        meaning="Modules import each other. Two threads enter the cycle at different modules, and "
        "nothing orders the two imports. CPython ends the deadlock by handing out an incomplete "
        "module.",
        remedy="Import the first module of the cycle on the main thread before the other thread "
        "starts, or break the cycle.",
    ),
)
# The same for a package that imports its submodule, and the submodule, which needs its package first.
SUBMODULE: Final = HazardKind(
    name="submodule order",
    find=crossed_hazards,
    what="{first} imports its submodule {last}",
    delays=_delays,
    hands_out=_hands_out,
    rule=Rule(
        id="import-race/submodule-order",
        severity=Severity.WARNING,
        meaning="A package imports its own submodule. One thread imports the package and another one "
        "the submodule, and nothing orders the two imports. Each thread locks what the other one "
        "needs, and CPython ends the deadlock with an incomplete module or a KeyError.",
        remedy="Import the package on the main thread before the other thread starts.",
    ),
)
