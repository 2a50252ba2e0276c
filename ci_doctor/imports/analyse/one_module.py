# SPDX-License-Identifier: Apache-2.0
"""Hazards of one module: wrong objects that a waiting thread received, and failed imports. Pure."""

from collections.abc import Iterator

from ci_doctor.imports.analyse.evidence import how_close, import_of_ask, margin, overlap
from ci_doctor.imports.analyse.hazard import Closeness, Hazard, HazardKind, Import
from ci_doctor.imports.analyse.history import History, Load
from ci_doctor.imports.record.events import Ask, Wait
from ci_doctor.render.formatting import duration

_RECEIVED = {
    "replaced": "the discarded object",
    "removed": "the unfinished module of an import that failed",
}
_KINDS = {"replaced": HazardKind.REPLACED, "removed": HazardKind.FAILED}


def wrong_objects(history: History) -> Iterator[Hazard]:
    """HANDED_OUT: a thread that waited received an object that is not in `sys.modules`."""
    for waits in history.waits.values():
        for wait in waits:
            if wait.outcome not in _KINDS:
                continue
            hazard = _of_wait(history, wait)
            if hazard is not None:
                yield hazard


def _of_wait(history: History, wait: Wait) -> Hazard | None:
    asks = history.asks_before(wait.n, wait.name, wait.k)
    load = _awaited_load(history, wait)
    # The request may have come before the recorder watched statements.
    if not asks or load is None:
        return None
    if wait.outcome == "removed" and _is_consequence(history, load):
        return None
    second = import_of_ask(history, asks[-1])
    first = _loading_import(history, load, second)
    waited = duration(wait.waited_ns / 1e9)
    received = _RECEIVED[wait.outcome]
    detail = f"the second import waited {waited} and was handed {received}"
    kind = _KINDS[wait.outcome]
    return one_module_hazard(history, kind, Closeness.HANDED_OUT, (first, second), load, detail)


def _awaited_load(history: History, wait: Wait) -> Load | None:
    """The newest load of the owner before the wait's end, or of any other thread if unknown."""
    newest = None
    for load in history.executed.get(wait.name, ()):
        is_owner = wait.owner is None or wait.owner == load.n
        # Nobody waits for itself.
        if not is_owner or load.n == wait.n:
            continue
        if load.begin.t <= wait.t:
            newest = load
    return newest


def _loading_import(history: History, load: Load, other: Import) -> Import:
    """The import that led to `load`; without a recorded request it has the place of `other`."""
    begin = load.begin
    asks = history.asks_before(begin.n, begin.name, begin.k)
    if asks:
        return import_of_ask(history, asks[-1])
    thread = history.process.threads[begin.n]
    return Import(
        thread=thread.name,
        name=begin.name,
        site=other.site,
        chain=other.chain,
        began_ns=begin.t,
        ended_ns=load.ended_ns,
        thread_started_at=thread.started_at,
    )


def failed_hazards(history: History) -> Iterator[Hazard]:
    """An import failed, and a thread that nothing orders requests the module by a statement."""
    for loads in history.executed.values():
        for load in loads:
            if load.ended_as("failed") and not _is_consequence(history, load):
                yield from _of_failed_load(history, load)


def _of_failed_load(history: History, load: Load) -> Iterator[Hazard]:
    for n in history.process.threads:
        ask = _unordered_ask(history, load, n)
        if ask is None or not _is_harmed(history, ask, load):
            continue
        second = import_of_ask(history, ask)
        first = _loading_import(history, load, second)
        detail = how_close(margin(load, ask.t))
        closeness = overlap(load, ask.t)
        yield one_module_hazard(
            history, HazardKind.FAILED, closeness, (first, second), load, detail
        )


def _unordered_ask(history: History, load: Load, n: int) -> Ask | None:
    """The first request of another thread `n` that is not ordered before the load.

    None if that is not a statement, or if something orders it after the load.
    """
    if n == load.n or load.end is None:
        return None
    orders = history.orders
    asks = history.asks.get((n, load.name), ())
    unordered = [ask for ask in asks if not orders.before(ask, load.begin)]
    if not unordered:
        return None
    first = unordered[0]
    # importlib looks into `sys.modules` again after the wait (replaced.py).
    if first.how != "statement" or orders.before(load.end, first):
        return None
    if _is_in_same_module(first, load):
        return None
    return first


def _is_in_same_module(ask: Ask, load: Load) -> bool:
    """Whether the lock of a module that contains both separates them."""
    within = load.begin.within
    return within is not None and ask.within == within


def _is_consequence(history: History, load: Load) -> bool:
    """Whether it failed because CPython avoided a deadlock, which is a hazard of its own."""
    for deadlock in history.deadlocks:
        if load.n in {deadlock.n, deadlock.owner} and deadlock.t in load:
            return True
    return False


def _is_harmed(history: History, ask: Ask, load: Load) -> bool:
    """Whether the second import would go wrong because of the meeting."""
    for own in history.executed.get(ask.name, ()):
        if own.n != ask.n or own.begin.k < ask.k:
            continue
        if own.begin.t < load.begin.t:
            return False  # it came first, and has executed the module itself
        # `from m import x` of a module that fails every time raises with or without a meeting.
        return not (own.ended_as("failed") and ask.names)
    return True


def one_module_hazard(
    history: History,
    kind: HazardKind,
    closeness: Closeness,
    imports: tuple[Import, Import],
    load: Load | None,
    detail: str,
) -> Hazard:
    """A hazard of the module that the second of `imports` names; `load` is that of the first."""
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
        detail=detail,
    )
