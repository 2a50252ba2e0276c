# SPDX-License-Identifier: Apache-2.0
"""Import cycles and submodule orders as hazards: those that can meet, and those where CPython had to avoid a deadlock. Pure."""

from collections.abc import Iterator

from ci_doctor.imports.analyse.evidence import how_close, margin, of_ask, of_taken
from ci_doctor.imports.analyse.graph import Graph
from ci_doctor.imports.analyse.hazard import Closeness, Hazard, HazardKind, Import
from ci_doctor.imports.analyse.history import History, Load
from ci_doctor.imports.analyse.locks import Crossing
from ci_doctor.imports.record.events import Deadlock
from ci_doctor.imports.report.remedy import remedy


def crossed(history: History, crossing: Crossing) -> Hazard:
    """The hazard of two threads that can hold what the other one needs."""
    sides = (crossing.one.n, crossing.has_one), (crossing.two.n, crossing.has_two)
    imports = [(n, of_taken(history, n, node)) for n, node in sides]
    (n, first), (_, second) = sorted(imports, key=lambda side: side[1].began_ns)
    load = _load(history, n, first.name)
    gap = margin(load, second.began_ns)
    is_near = (gap is not None and gap < 0) or (load is not None and load.end is None)
    closeness = Closeness.NEAR if is_near else Closeness.LATENT
    return _hazard(history, closeness, (first, second), gap, how_close(gap))


def _load(history: History, n: int, name: str) -> Load | None:
    """How thread `n` loaded `name`, or, where it found it loaded, who did."""
    own = history.load_by(n, name)
    return own or next(iter(history.executed.get(name, ())), None)


def avoided(history: History, graph: Graph) -> Iterator[Hazard]:
    """FIRED: CPython let a thread go on without a lock that it needed."""
    for deadlock in history.deadlocks:
        held = _held(deadlock, graph)
        first = _import(history, deadlock.owner, deadlock.name, deadlock)
        second = _import(history, deadlock.n, held, deadlock)
        if second is None:
            continue
        first = first or second
        detail = f"CPython avoided a deadlock: thread {second.thread} holds {held} and went on without {deadlock.name}"
        load = (
            history.load_by(deadlock.owner, deadlock.name) if deadlock.owner is not None else None
        )
        yield _hazard(
            history, Closeness.FIRED, (first, second), margin(load, second.began_ns), detail
        )


def _held(deadlock: Deadlock, graph: Graph) -> str:
    """What the thread holds that the other one wants: of the same group as the module that it asked for."""
    number = graph.number.get(deadlock.name)
    for name in reversed(deadlock.held):
        other = graph.number.get(name)
        if name == deadlock.name or number is None or other is None:
            continue
        if graph.group[number] == graph.group[other]:
            return name
    others = [name for name in deadlock.held if name != deadlock.name]
    return others[-1] if others else deadlock.name


def _import(history: History, n: int | None, name: str, deadlock: Deadlock) -> Import | None:
    """How thread `n` came to `name`."""
    if n is None:
        return None
    asks = [ask for ask in history.asked.get((n, name), ()) if ask.t <= deadlock.t]
    asks = asks or [ask for ask in history.entries.get(n, ()) if ask.t <= deadlock.t]
    return of_ask(history, asks[-1]) if asks else None


def _hazard(
    history: History,
    closeness: Closeness,
    imports: tuple[Import, Import],
    margin_ns: int | None,
    detail: str,
) -> Hazard:
    first, second = imports
    pair = first.name, second.name
    kind = (
        HazardKind.SUBMODULE
        if is_below(pair[0], pair[1]) or is_below(pair[1], pair[0])
        else HazardKind.CYCLE
    )
    modules = tuple(sorted(dict.fromkeys(pair), key=lambda name: (name.count("."), name)))
    return Hazard(
        kind=kind,
        closeness=closeness,
        pid=history.process.pid,
        modules=modules,
        first=first,
        second=second,
        margin_ns=margin_ns,
        pair=pair,
        remedy=remedy(first, second, modules),
        detail=detail,
    )


def is_below(package: str, name: str) -> bool:
    """Whether `name` is inside `package`."""
    return name.startswith(package + ".")
