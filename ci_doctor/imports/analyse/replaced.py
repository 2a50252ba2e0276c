# SPDX-License-Identifier: Apache-2.0
"""Modules that are not what a waiting thread is handed: they replaced themselves, or their import failed.

CPython's C code takes the module from `sys.modules` before it waits for the module's lock, and returns that object after
the wait (CPython 3.8 to 3.12: `PyImport_ImportModuleLevelObject`); `importlib.import_module` looks again. Pure.
"""

from collections.abc import Iterator, Sequence

from ci_doctor.imports.analyse.evidence import (
    duration,
    how_close,
    margin,
    of_ask,
    of_taken,
    overlap,
)
from ci_doctor.imports.analyse.forest import Forest, LockNode
from ci_doctor.imports.analyse.hazard import Closeness, Hazard, HazardKind, Import
from ci_doctor.imports.analyse.history import History, Load
from ci_doctor.imports.analyse.locks import ComparisonBudget, skips_into
from ci_doctor.imports.record.events import Ask, Wait
from ci_doctor.imports.report.remedy import remedy

Names = frozenset[str]
_HANDED = {
    "replaced": "the discarded object",
    "removed": "the unfinished module of an import that failed",
}
_KINDS = {"replaced": HazardKind.REPLACED, "removed": HazardKind.FAILED}


def replaced_modules(history: History) -> tuple[str, ...]:
    """The modules that put another object into `sys.modules` while they were loaded."""
    return tuple(
        name
        for name, loads in history.executed.items()
        if any(
            load.end is not None and load.end.status == "loaded" and load.end.replaced
            for load in loads
        )
    )


def handed_out(history: History) -> Iterator[Hazard]:
    """FIRED: a thread was handed what is not in `sys.modules`."""
    for waits in history.waits.values():
        for wait in waits:
            asks = [ask for ask in history.asked.get((wait.n, wait.name), ()) if ask.k < wait.k]
            load = _waited_for(history, wait)
            is_consequence = (
                wait.outcome == "removed" and load is not None and _is_told(history, load)
            )
            if wait.outcome in _HANDED and asks and load is not None and not is_consequence:
                second = of_ask(history, asks[-1])
                detail = f"the second import waited {duration(wait.waited_ns)} and was handed {_HANDED[wait.outcome]}"
                first = _loader(history, load, second)
                yield _hazard(
                    history, _KINDS[wait.outcome], Closeness.FIRED, (first, second), load, detail
                )


def _waited_for(history: History, wait: Wait) -> Load | None:
    """The loading that `wait` waited for: the newest of the owner, or of any other thread where that is not known."""
    loads = [
        load
        for load in history.executed.get(wait.name, ())
        if load.begin.n != wait.n and load.begin.t <= wait.t and wait.owner in {None, load.begin.n}
    ]
    return loads[-1] if loads else None


def _loader(history: History, load: Load, other: Import) -> Import:
    """The import that led to `load`."""
    begin = load.begin
    asks = [ask for ask in history.asked.get((begin.n, begin.name), ()) if ask.k < begin.k]
    if asks:
        return of_ask(history, asks[-1])
    thread = history.process.threads[begin.n]
    return Import(
        thread=thread.name,
        name=begin.name,
        site=other.site,
        chain=other.chain,
        began_ns=begin.t,
        ended_ns=load.end.t if load.end is not None else None,
        thread_started_at=thread.started_at,
    )


def replaced_hazards(
    history: History, forests: Sequence[Forest], steps: ComparisonBudget
) -> Iterator[Hazard]:
    """Two threads may load one self-replacing module, and the later one may wait for it by a statement."""
    for name in replaced_modules(history):
        asking = [(forest, forest.taken[name]) for forest in forests if name in forest.taken]
        if not steps.take(sum(1 for _, node in asking for _ in node.held()) + len(asking) ** 2):
            continue
        held = {id(node): frozenset(holder.name for holder in node.held()) for _, node in asking}
        found = [
            (one, first, two, second)
            for one, first in asking
            for two, second in asking
            if one.n != two.n
            and _can_wait(first, two, second, held[id(first)], held[id(second)])
            and not one.skipping
        ]
        # Who did load it comes first; what might have been only counts where that one is not in danger.
        made = [pair for pair in found if history.load_by(pair[0].n, name)]
        yield from (_replaced(history, name, *pair) for pair in made or found)


def _can_wait(
    first: LockNode, two: Forest, second: LockNode, held_first: Names, held_second: Names
) -> bool:
    """Whether the thread of `second` can wait by a statement while the one of `first` loads the module."""
    if (
        first.waits
        or second.ask is None
        or second.ask.how != "statement"
        or held_first & held_second
    ):
        return False
    return (
        not two.skipping
        or second.name in two.skipped
        or skips_into(two, [*held_second, second.name], held_first)
    )


def _replaced(
    history: History, name: str, one: Forest, first: LockNode, two: Forest, second: LockNode
) -> Hazard:
    load = history.load_by(one.n, name)
    imports = of_taken(history, one.n, first), of_taken(history, two.n, second)
    if load is None:
        load = history.load_by(two.n, name)
        detail = "in this run the second import came first; nothing keeps this order"
        return _hazard(history, HazardKind.REPLACED, Closeness.LATENT, imports, None, detail)
    ask_ns = imports[1].began_ns
    waited = any(wait.owner == one.n for wait in history.waits.get((two.n, name), ()))
    closeness = Closeness.NEAR if waited else overlap(load, ask_ns)
    return _hazard(
        history, HazardKind.REPLACED, closeness, imports, load, how_close(margin(load, ask_ns))
    )


def failed_hazards(history: History) -> Iterator[Hazard]:
    """An import failed, and another thread that nothing orders asks for the same module by a statement."""
    for loads in history.executed.values():
        for load in loads:
            if load.end is not None and load.end.status == "failed" and not _is_told(history, load):
                for n in history.process.threads:
                    ask = _unordered_ask(history, load, n)
                    if ask is not None and _matters(history, ask, load):
                        second = of_ask(history, ask)
                        first = _loader(history, load, second)
                        detail = how_close(margin(load, ask.t))
                        yield _hazard(
                            history,
                            HazardKind.FAILED,
                            overlap(load, ask.t),
                            (first, second),
                            load,
                            detail,
                        )


def _unordered_ask(history: History, load: Load, n: int) -> Ask | None:
    """The first ask of thread `n` for the module that neither comes before its loading nor after it; statements only."""
    orders = history.orders
    if n == load.begin.n or load.end is None:
        return None
    for ask in history.asked.get((n, load.begin.name), ()):
        if not orders.before(ask, load.begin):
            is_free = ask.how == "statement" and not orders.before(load.end, ask)
            # Both within one module: its lock keeps them apart.
            return (
                ask if is_free and (ask.within is None or ask.within != load.begin.within) else None
            )
    return None


def _is_told(history: History, load: Load) -> bool:
    """It failed because CPython avoided a deadlock, which is told by itself."""
    return any(
        load.begin.n in {deadlock.n, deadlock.owner} and deadlock.t in load
        for deadlock in history.deadlocks
    )


def _matters(history: History, ask: Ask, load: Load) -> bool:
    """Whether the second import would be harmed. `from m import x` of a module that always fails raises either way."""
    own = [
        other
        for other in history.executed.get(ask.name, ())
        if other.begin.n == ask.n and other.begin.k > ask.k
    ]
    fails_itself = bool(own) and own[0].end is not None and own[0].end.status == "failed"
    came_first = bool(own) and own[0].begin.t < load.begin.t
    return not came_first and not (fails_itself and ask.names)


def _hazard(
    history: History,
    kind: HazardKind,
    closeness: Closeness,
    imports: tuple[Import, Import],
    load: Load | None,
    detail: str,
) -> Hazard:
    first, second = imports
    return Hazard(
        kind=kind,
        closeness=closeness,
        pid=history.process.pid,
        modules=(second.name,),
        first=first,
        second=second,
        margin_ns=margin(load, second.began_ns),
        pair=None,
        remedy=remedy(first, second, (second.name,), movable_only=kind is HazardKind.FAILED),
        detail=detail,
    )
