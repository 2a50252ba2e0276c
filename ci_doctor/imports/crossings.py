# SPDX-License-Identifier: Apache-2.0
"""Pure. What a kind of import hazard is; the kinds of two threads that each hold a module lock which the other one needs."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from typing import Final, Literal

from msgspec import Struct

from ci_doctor.imports.locks import ComparisonBudget, Forest, Graph, History, Load, LockNode
from ci_doctor.imports.trace import Ask, Deadlock, ImportEvent
from ci_doctor.model.facts.import_race import Closeness, Hazard, Import, Site
from ci_doctor.model.outcome import Rule, Severity
from ci_doctor.render.formatting import duration

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


class ProcessImports(Struct, frozen=True, kw_only=True):
    """What the hazards of a process are found in.

    forests: what each thread would lock. The budgets are apart, so that many self-replacing modules
    do not hide the cycles, nor the other way round.
    """

    history: History
    graph: Graph
    forests: Sequence[Forest]
    replacing: ComparisonBudget
    crossing: ComparisonBudget


class HazardKind(Struct, frozen=True, kw_only=True):
    """Why two threads can break an import. CPython's module locks make every other case safe.

    find: the hazards of a process; kinds may share it. what: what is special about the modules, in
    words: `{first}`, `{last}`, `{all}` of them. threads: words in place of the usual ones. delays:
    those that can make it happen, in the order in which to try them; none if no run decides it.
    hands_out: whether an event shows that a thread received a wrong module. is_harm: whether that is
    harm, even if no name is missed. advice: what to do in place of an import on the main thread.
    is_preloadable: whether a preload ends it. has_fix: an interpreter with gh-143650 is immune.
    """

    name: str
    rule: Rule
    find: Callable[[ProcessImports], Iterator[Hazard]]
    what: str
    threads: str | None = None
    delays: Callable[[Hazard], tuple[Hold, ...]]
    hands_out: Callable[[Hazard, ImportEvent], bool]
    is_harm: bool = False
    advice: str | None = None
    is_preloadable: bool = True
    has_fix: bool = False


def limit_s(hazard: Hazard) -> float:
    """How many seconds to delay: the other thread arrives as late as it did in the recording."""
    gap_s = abs(hazard.margin_ns or 0) / 1e9
    wanted_s = _FACTOR * gap_s + _MARGIN_S
    return round(min(max(wanted_s, _SHORTEST_S), _LONGEST_S), 1)


def while_it_runs(hazard: Hazard) -> tuple[Hold, ...]:
    """The delay for one module: it is enough that the other thread requests it while its code runs."""
    return (Hold(mode="exec", x=hazard.modules[0], limit_s=limit_s(hazard)),)


def no_delay(_: Hazard) -> tuple[Hold, ...]:
    """For what needs no delay to meet a thread that has the module: any run may show nothing."""
    return ()


_RANKS = {closeness: rank for rank, closeness in enumerate(Closeness)}


def badness(hazard: Hazard) -> tuple[int, bool, int]:
    """The sort key of "worst first", in the order of `Closeness`; then by the smallest margin.

    An unknown margin comes after the known ones.
    """
    distance_ns = abs(hazard.margin_ns or 0)
    return _RANKS[hazard.closeness], hazard.margin_ns is None, distance_ns


def import_of_ask(history: History, ask: Ask) -> Import:
    """The import that `ask` is a record of."""
    return _import_at(history, ask, ask.name, history.chain(ask), ask)


def import_of_node(history: History, node: LockNode) -> Import:
    """The import by which the thread would load `node` if it came first."""
    asks = [each.ask for each in (node, *node.held()) if each.ask is not None]
    # What is inside another thread's load has that thread's time: take the time of the own request.
    own = asks[0] if asks[0].n == node.n else node.entry
    # `import a.b` is several requests of one line.
    chain = tuple(site for site, _ in groupby(ask.site for ask in reversed(asks)))
    return _import_at(history, own, node.name, chain, asks[0])


def _import_at(
    history: History, own: Ask, name: str, chain: tuple[Site, ...], innermost: Ask
) -> Import:
    thread = history.process.threads[own.n]
    load = history.load_by(own.n, name)
    return Import(
        thread=thread.name,
        name=name,
        site=innermost.site,
        chain=chain,
        began_ns=own.t,
        ended_ns=None if load is None else load.ended_ns,
        # The from-list is of what the statement requests, which may be an outer module.
        names=innermost.names if innermost.name == name else (),
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


def _crossings(
    first: Forest, second: Forest, found: ProcessImports
) -> Iterator[tuple[int, LockNode, LockNode]]:
    """Each two modules that the threads can hold at the same time, while each wants the other's.

    Before them stands how many locks both hold: shorter ones are reported first. `first` waits for
    the packages that it needs, `second` may skip them.
    """
    for first_wants in first.taken.values():
        second_holds = second.taken.get(first_wants.name)
        # Only the modules of a cycle can be taken in opposite orders.
        is_in_cycle = found.graph.grouped & found.graph.bits[first_wants.name]
        if second_holds is None or not is_in_cycle or _share_gate(first_wants, second_holds):
            continue
        for first_holds in first_wants.held():
            if not found.crossing.take(1):
                return
            second_wants = second.taken.get(first_holds.name)
            # The other way round: `second` must take it while it holds what `first` needs.
            if second_wants is None:
                continue
            if not second_holds.at < second_wants.at <= second_holds.done:
                continue
            depth, can_meet = _meeting(first_wants, second_wants, first, second)
            # Counted after the fact: the depth is not known before.
            found.crossing.take(depth)
            if can_meet:
                yield depth, first_holds, second_holds


def _share_gate(first: LockNode, second: LockNode) -> bool:
    """Whether both are taken within the same outermost module: its lock separates the threads."""
    # The gate is not the wanted module itself: that one is what they may fight for.
    if first.holder is None or second.holder is None:
        return False
    return first.entry.name == second.entry.name


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
        if node.name in first_held or _has_loaded(first, [node.name], first_wants.at):
            return len(first_held) + len(second_held), False
    depth = len(first_held) + len(second_held)
    if _has_loaded(second, first_held, second_wants.at):
        return depth, False
    if second.skipping:
        return depth, skips_into(second, [second_wants.name, *second_held], first_held)
    return depth, True


def _has_loaded(forest: Forest, names: Iterable[str], at: int) -> bool:
    nodes = [forest.taken[name] for name in names if name in forest.taken]
    return any(node.done < at for node in nodes)


def skips_into(forest: Forest, chain: Iterable[str], held: AbstractSet[str]) -> bool:
    """Whether a module of `chain` is in a package that the other thread, holding `held`, loads.

    Only packages that `forest` skipped count: it did not wait for those.
    """
    for name in chain:
        package = name.rpartition(".")[0]
        if package in held and package in forest.skipped:
            return True
    return False


def crossed_hazards(found: ProcessImports) -> Iterator[Hazard]:
    """Both kinds: the deadlocks that CPython avoided, and those that can happen."""
    for deadlock in found.history.deadlocks:
        yield from _avoided(found, deadlock)
    for index, first in enumerate(found.forests):
        for second in found.forests[index + 1 :]:
            # Of two threads that skip the same package, neither loads it.
            if first.n != second.n and not (first.skipping and second.skipping):
                pair = (second, first) if first.skipping else (first, second)
                yield from _simplest(found, *pair)


def _simplest(found: ProcessImports, waiting: Forest, other: Forest) -> Iterator[Hazard]:
    """The shortest crossing of each group and two places: one that a person can follow."""
    reported: set[Hashable] = set()
    possible = _crossings(waiting, other, found)
    for _, first, second in sorted(possible, key=lambda crossing: crossing[0]):
        key = found.graph.reach[first.name], first.entry.site, second.entry.site
        if key not in reported:
            reported.add(key)
            yield _crossing(found.history, (first, second))


def _crossing(history: History, nodes: tuple[LockNode, LockNode]) -> Hazard:
    """The hazard of two threads that can each hold one of `nodes`."""
    sides = [(import_of_node(history, node), node.n) for node in nodes]
    # A crossing has no first thread: the recording decides which import a reader sees first.
    sides.sort(key=lambda side: side[0].began_ns)
    (first, n), (second, _) = sides
    # How the thread loaded it; if it did not, the first load of any thread.
    load = history.load_by(n, first.name) or next(iter(history.executed.get(first.name, ())), None)
    margin_ns = margin(load, second.began_ns)
    closeness = Closeness.LATENT
    if load is not None and (margin_ns is None or margin_ns < 0):
        closeness = Closeness.NEAR
    return _hazard(history, closeness, (first, second), margin_ns, how_close(margin_ns))


def _avoided(found: ProcessImports, deadlock: Deadlock) -> Iterator[Hazard]:
    """HANDED_OUT: CPython let a thread continue without a lock that it needed."""
    history, reach = found.history, found.graph.reach
    held = [name for name in deadlock.held if name != deadlock.name]
    # The other thread wants the held module that is in the same group as the requested one; without
    # one, the innermost. If nothing else is held, the requested module has to stand for both.
    group = reach.get(deadlock.name)
    alike = [name for name in held if group is not None and reach.get(name) == group]
    crossed = (alike or held or [deadlock.name])[-1]
    second = _import(history, deadlock.n, crossed, deadlock.t)
    if second is None:
        return
    # Without a known owner both sides show the place of the thread that gave up its wait.
    first = second
    margin_ns = None
    if deadlock.owner is not None:
        first = _import(history, deadlock.owner, deadlock.name, deadlock.t) or second
        margin_ns = margin(history.load_by(deadlock.owner, deadlock.name), second.began_ns)
    detail = (
        f"CPython avoided a deadlock: thread {second.thread} holds {crossed} "
        f"and went on without {deadlock.name}"
    )
    yield _hazard(history, Closeness.HANDED_OUT, (first, second), margin_ns, detail)


def _import(history: History, n: int, name: str, at_ns: int) -> Import | None:
    """The import by which thread `n` came to `name`; if unknown, its latest outermost import."""
    for asks in (history.asks.get((n, name), ()), history.entries.get(n, ())):
        # By time, because the events of two threads have no common numbers.
        earlier = [ask for ask in asks if ask.t <= at_ns]
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
