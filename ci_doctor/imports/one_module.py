# SPDX-License-Identifier: Apache-2.0
"""Pure. Hazards of one module: it replaces itself, its import fails, or it is reloaded."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ci_doctor.imports.crossings import (
    ComparisonBudget,
    how_close,
    import_of_ask,
    import_of_node,
    margin,
    overlap,
    skips_into,
)
from ci_doctor.imports.hazard import Closeness, Hazard, HazardKind, Import
from ci_doctor.imports.history import History, Load
from ci_doctor.imports.locks import Forest, LockNode
from ci_doctor.imports.trace import Ask, ImportEvent, Reload, Wait
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


class _ImportRequest(Struct, frozen=True):
    """One thread's way to the module, and the modules that the thread holds there."""

    forest: Forest
    node: LockNode
    held: frozenset[str]


def replaced_modules(history: History) -> Iterator[str]:
    """The modules that put another object into `sys.modules` while they were loaded."""
    for name, loads in history.executed.items():
        for load in loads:
            if load.end is not None and load.end.status == "loaded" and load.end.replaced:
                yield name
                break


def replaced_hazards(
    history: History, forests: Sequence[Forest], budget: ComparisonBudget
) -> Iterator[Hazard]:
    """Two threads may load one self-replacing module, and the later may wait by a statement."""
    for name in replaced_modules(history):
        requests = list(_requests(name, forests))
        if not budget.take(_cost(requests)):
            continue
        pairs = list(_dangerous_pairs(requests))
        # The thread that did load it comes first. What might have been counts only if that one
        # is not in danger.
        actual = [
            (first, second)
            for first, second in pairs
            if history.load_by(first.forest.n, name) is not None
        ]
        for first, second in actual or pairs:
            yield _replaced(history, name, first, second)


def _cost(requests: Sequence[_ImportRequest]) -> int:
    # Making the sets `held`, and comparing each two of the requests.
    depth = 0
    for request in requests:
        depth += len(request.held)
    return depth + len(requests) ** 2


def _requests(name: str, forests: Sequence[Forest]) -> Iterator[_ImportRequest]:
    for forest in forests:
        node = forest.taken.get(name)
        if node is None:
            continue
        names = [holder.name for holder in node.held()]
        yield _ImportRequest(forest, node, frozenset(names))


def _dangerous_pairs(
    requests: Sequence[_ImportRequest],
) -> Iterator[tuple[_ImportRequest, _ImportRequest]]:
    """Each two in which the second can wait by a statement while the first loads the module."""
    for first in requests:
        # A thread that skips packages does so because the other thread came first.
        if first.forest.skipping or first.node.waits:
            continue
        for second in requests:
            if first.forest.n != second.forest.n and _can_wait(first, second):
                yield first, second


def _can_wait(first: _ImportRequest, second: _ImportRequest) -> bool:
    ask = second.node.ask
    # Only the C code of a statement returns what it saw before the wait.
    if ask is None or ask.how != "statement":
        return False
    if first.held & second.held:
        return False  # the lock of a module that both hold separates them
    forest = second.forest
    name = second.node.name
    if not forest.skipping or name in forest.skipped:
        return True
    return skips_into(forest, [*second.held, name], first.held)


def _replaced(history: History, name: str, one: _ImportRequest, two: _ImportRequest) -> Hazard:
    kind = HazardKind.REPLACED
    first = import_of_node(history, one.forest.n, one.node)
    second = import_of_node(history, two.forest.n, two.node)
    imports = first, second
    loader = one.forest.n
    load = history.load_by(loader, name)
    if load is None:
        detail = "in this run the second import came first; nothing keeps this order"
        return one_module_hazard(history, kind, Closeness.LATENT, imports, None, detail)
    closeness = overlap(load, second.began_ns)
    # A recorded wait proves that they met, whatever the clock readings around it say.
    for wait in history.waits.get((two.forest.n, name), ()):
        if wait.owner == loader:
            closeness = Closeness.NEAR
    detail = how_close(margin(load, second.began_ns))
    return one_module_hazard(history, kind, closeness, imports, load, detail)


def reload_hazards(history: History) -> Iterator[Hazard]:
    """LATENT: nothing orders a reload of a module and a thread that has requested it."""
    for event in history.process.events:
        if not isinstance(event, Reload):
            continue
        for n in history.events:
            asks = history.asks.get((n, event.name), ())
            if n != event.n and asks and _may_meet(history, event, n):
                yield _hazard(history, event, asks[0])


def _may_meet(history: History, reload: Reload, n: int) -> bool:
    """Whether thread `n` may live while the module is executed again."""
    orders = history.orders
    events: list[ImportEvent] = history.events[n]
    return not orders.before(events[-1], reload) and not orders.before(reload, events[0])


def _hazard(history: History, reload: Reload, ask: Ask) -> Hazard:
    first = Import(
        thread=history.process.threads[reload.n].name,
        name=reload.name,
        site=reload.site,
        chain=(reload.site,),
        began_ns=reload.t,
        ended_ns=None,
        thread_started_at=history.process.threads[reload.n].started_at,
    )
    return Hazard(
        kind=HazardKind.RELOAD,
        closeness=Closeness.LATENT,
        pid=history.process.pid,
        modules=(reload.name,),
        first=first,
        second=import_of_ask(history, ask),
        margin_ns=None,
        pair=None,
        detail="no lock separates the reload from a thread that has the module already",
    )
