# SPDX-License-Identifier: Apache-2.0
"""Import cycles and submodule orders as hazards: possible ones, and avoided deadlocks. Pure."""

from collections.abc import Iterator

from ci_doctor.imports.analyse.evidence import how_close, import_of_ask, import_of_node, margin
from ci_doctor.imports.analyse.graph import Graph
from ci_doctor.imports.analyse.hazard import Closeness, Hazard, HazardKind, Import
from ci_doctor.imports.analyse.history import History, Load
from ci_doctor.imports.analyse.locks import Crossing
from ci_doctor.imports.record.events import Deadlock


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
    kind = HazardKind.CYCLE
    if _are_nested(modules):
        kind = HazardKind.SUBMODULE
    return Hazard(
        kind=kind,
        closeness=closeness,
        pid=history.process.pid,
        modules=modules,
        first=first,
        second=second,
        margin_ns=margin_ns,
        pair=(first.name, second.name),
        detail=detail,
    )


def _are_nested(modules: tuple[str, ...]) -> bool:
    """Whether the last module is inside the first one."""
    return modules[-1].startswith(modules[0] + ".")
