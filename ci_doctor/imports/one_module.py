# SPDX-License-Identifier: Apache-2.0
"""Pure. Hazards of one module: it replaces itself, its import fails, or it is reloaded."""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from ci_doctor.imports.crossings import (
    HazardKind,
    ProcessImports,
    how_close,
    import_of_ask,
    import_of_node,
    margin,
    no_delay,
    overlap,
    skips_into,
    while_it_runs,
)
from ci_doctor.imports.locks import Forest, History, Load, LockNode
from ci_doctor.imports.trace import Ask, ImportEvent, RecordedThread, Reload, Wait
from ci_doctor.model.facts.import_race import Closeness, Hazard, Import
from ci_doctor.model.outcome import Rule, Severity
from ci_doctor.render.formatting import duration

_RECEIVED = {
    "replaced": "the discarded object",
    "removed": "the unfinished module of an import that failed",
}


def _wrong_objects(history: History, outcome: str, kind: HazardKind) -> Iterator[Hazard]:
    """HANDED_OUT: a thread that waited received an object that is not in `sys.modules`."""
    for wait in (each for waits in history.waits.values() for each in waits):
        asks = history.asks_before(wait.n, wait.name, wait.k)
        # Those of the owner, or of any other thread if it is unknown. Nobody waits for itself.
        owners = set(history.process.threads) - {wait.n} if wait.owner is None else {wait.owner}
        loads = [
            load
            for load in history.executed.get(wait.name, ())
            if load.n in owners - {wait.n} and load.begin.t <= wait.t
        ]
        # The request may have come before the recorder watched statements.
        if wait.outcome != outcome or not asks or not loads:
            continue
        load = loads[-1]
        if outcome == "removed" and _is_consequence(history, load):
            continue
        second = import_of_ask(history, asks[-1])
        imports = _loading_import(history, load, second), second
        waited = duration(wait.waited_ns / 1e9)
        detail = f"the second import waited {waited} and was handed {_RECEIVED[outcome]}"
        yield one_module_hazard(history, kind, Closeness.HANDED_OUT, imports, load, detail)


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


def _failed_hazards(found: ProcessImports) -> Iterator[Hazard]:
    """An import failed, and a thread that nothing orders requests the module by a statement."""
    history = found.history
    yield from _wrong_objects(history, "removed", FAILED)
    for load in (load for loads in history.executed.values() for load in loads):
        if not load.ended_as("failed") or _is_consequence(history, load):
            continue
        for n in history.process.threads:
            ask = _unordered_ask(history, load, n)
            if ask is None or not _is_harmed(history, ask, load):
                continue
            second = import_of_ask(history, ask)
            imports = _loading_import(history, load, second), second
            detail = how_close(margin(load, ask.t))
            yield one_module_hazard(history, FAILED, overlap(load, ask.t), imports, load, detail)


def _unordered_ask(history: History, load: Load, n: int) -> Ask | None:
    """The first request of another thread `n` that is not ordered before the load.

    None if that is not a statement, or if something orders it after the load.
    """
    if n == load.n or load.end is None:
        return None
    orders = history.orders
    asks = history.asks.get((n, load.name), ())
    first = next((ask for ask in asks if not orders.before(ask, load.begin)), None)
    # importlib looks into `sys.modules` again after the wait (`_can_wait`).
    if first is None or first.how != "statement" or orders.before(load.end, first):
        return None
    # The lock of a module that contains both separates them.
    within = load.begin.within
    return first if within is None or first.within != within else None


def _is_consequence(history: History, load: Load) -> bool:
    """Whether it failed because CPython avoided a deadlock, which is a hazard of its own."""
    return any(
        load.n in {deadlock.n, deadlock.owner} and deadlock.t in load
        for deadlock in history.deadlocks
    )


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
        kind=kind.name,
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
        if any(load.ended_as("loaded") and load.end and load.end.replaced for load in loads):
            yield name


def _replaced_hazards(found: ProcessImports) -> Iterator[Hazard]:
    """Two threads may load one self-replacing module, and the later may wait by a statement."""
    history = found.history
    yield from _wrong_objects(history, "replaced", REPLACED)
    for name in replaced_modules(history):
        requests = [
            _ImportRequest(forest, node, frozenset(holder.name for holder in node.held()))
            for forest in found.forests
            if (node := forest.taken.get(name)) is not None
        ]
        # Making the sets `held`, and comparing each two of the requests.
        cost = sum(len(request.held) for request in requests) + len(requests) ** 2
        if not found.replacing.take(cost):
            continue
        pairs = [
            (first, second)
            for first in requests
            # A thread that skips packages does so because the other thread came first.
            if not first.forest.skipping and not first.node.waits
            for second in requests
            if first.forest.n != second.forest.n and _can_wait(first, second)
        ]
        # The thread that did load it comes first. What might have been counts only if that one
        # is not in danger.
        actual = [pair for pair in pairs if history.load_by(pair[0].forest.n, name) is not None]
        for first, second in actual or pairs:
            yield _replaced(history, name, first, second)


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
    second = import_of_node(history, two.node)
    imports = import_of_node(history, one.node), second
    load = history.load_by(one.forest.n, name)
    if load is None:
        detail = "in this run the second import came first; nothing keeps this order"
        return one_module_hazard(history, REPLACED, Closeness.LATENT, imports, None, detail)
    closeness = overlap(load, second.began_ns)
    # A recorded wait proves that they met, whatever the clock readings around it say.
    if any(wait.owner == load.n for wait in history.waits.get((two.forest.n, name), ())):
        closeness = Closeness.NEAR
    detail = how_close(margin(load, second.began_ns))
    return one_module_hazard(history, REPLACED, closeness, imports, load, detail)


def _reload_hazards(found: ProcessImports) -> Iterator[Hazard]:
    """LATENT: nothing orders a reload of a module and a thread that has it."""
    history = found.history
    detail = "no lock separates the reload from a thread that has the module already"
    for event in history.process.events:
        if not isinstance(event, Reload):
            continue
        thread = history.process.threads[event.n]
        first = Import(
            thread=thread.name,
            name=event.name,
            site=event.site,
            chain=(event.site,),
            began_ns=event.t,
            ended_ns=None,
            thread_started_at=thread.started_at,
        )
        for second in _users(history, event, event.name):
            imports = first, second
            yield one_module_hazard(history, RELOAD, Closeness.LATENT, imports, None, detail)


def _users(
    history: History, again: ImportEvent, name: str, *, of_first: bool = False
) -> Iterator[Import]:
    """How other threads have module `name` that may live when it is executed `again`.

    By an own import, or by a name of the file that starts them. With `of_first`, an own import after
    `again` does not count.
    """
    files = {
        ask.site.file for number in history.events for ask in history.asks.get((number, name), ())
    }
    for thread in history.process.threads.values():
        if thread.number == again.n or not _may_live(history, again, thread):
            continue
        asks = history.asks.get((thread.number, name), ())
        started_at = thread.started_at
        if asks and not (of_first and history.orders.before(again, asks[0])):
            yield import_of_ask(history, asks[0])
        elif not asks and started_at is not None and started_at.file in files:
            yield Import(
                thread=thread.name,
                name=name,
                site=started_at,
                chain=(started_at,),
                began_ns=thread.started_ns,
                ended_ns=None,
                thread_started_at=started_at,
            )


def _may_live(history: History, again: ImportEvent, thread: RecordedThread) -> bool:
    """Whether `thread` may live at `again`. That its imports came before does not say that it ended."""
    orders = history.orders
    events: list[ImportEvent] = history.events.get(thread.number, [])
    has_ended = thread.ended_ns is not None and thread.ended_ns <= again.t
    if not events:  # no order is known of it
        return thread.started_ns <= again.t and not has_ended
    if orders.before(again, events[0]):
        return False
    return not (has_ended and orders.before(events[-1], again))


def _copied_hazards(found: ProcessImports) -> Iterator[Hazard]:
    """LATENT: a module is loaded anew, and nothing orders that and a thread that has the first copy."""
    history = found.history
    detail = "it was taken out of sys.modules, so that two copies of it are in use"
    for name, loads in history.executed.items():
        for again in [load for load in loads if load.ended_as("loaded")][1:]:
            # A thread that requests it later has the new copy alone.
            for second in _users(history, again.begin, name, of_first=True):
                imports = _loading_import(history, again, second), second
                yield one_module_hazard(history, COPIED, Closeness.LATENT, imports, None, detail)


def _receives(outcome: str) -> Callable[[Hazard, ImportEvent], bool]:
    """Whether an event says that a thread waited, and received a wrong object in this way."""
    return lambda hazard, event: (
        isinstance(event, Wait) and event.outcome == outcome and event.name in hazard.modules
    )


# The module puts another object into `sys.modules` while its code runs; a thread that waits for it
# receives the discarded object.
REPLACED: Final = HazardKind(
    name="self-replacing package",
    find=_replaced_hazards,
    what="{first} replaces itself in sys.modules",
    delays=while_it_runs,
    hands_out=_receives("replaced"),
    has_fix=True,
    rule=Rule(
        id="import-race/self-replacing",
        severity=Severity.WARNING,
        meaning="A module replaces itself in `sys.modules` while its code runs. Two threads import "
        "it, and nothing orders the two imports. CPython hands a thread that waits for the other "
        "one's import the discarded module: `cannot import name …`.",
        remedy="Import the module on the main thread, with the names that are used, before the other "
        "thread starts. The preload rule in the finding does that without a change to the program.",
    ),
)
# The import fails, and a thread that waits for it receives the incomplete module. A preload would fail too.
FAILED: Final = HazardKind(
    name="failed import",
    find=_failed_hazards,
    what="the import of {first} fails",
    delays=while_it_runs,
    hands_out=_receives("removed"),
    is_harm=True,
    is_preloadable=False,
    rule=Rule(
        id="import-race/failed-import",
        severity=Severity.WARNING,
        meaning="The import of a module fails in one thread. Another thread imports the module too, "
        "and nothing orders the two imports. If it waits for the first one, it receives the removed, "
        "incomplete module instead of the error.",
        remedy="Repair the import that fails, or make it on the main thread before the other thread "
        "starts.",
    ),
)
# `importlib.reload` executes the module again, which no lock keeps from a thread that uses it.
RELOAD: Final = HazardKind(
    name="reload",
    find=_reload_hazards,
    what="{first} is reloaded",
    threads="by thread {first}, and thread {second} has it",
    delays=no_delay,
    hands_out=_receives(""),
    advice="reload {first} only while no other thread uses it",
    is_preloadable=False,
    rule=Rule(
        id="import-race/reload",
        severity=Severity.WARNING,
        meaning="`importlib.reload` executes a module again in one thread. Another thread has "
        "the module, and nothing orders the two. That thread may see old and new objects side by side.",
        remedy="Reload a module only while no other thread uses it.",
    ),
)
# Something takes the module out of `sys.modules`, and it is executed anew. Python has no lock for that.
COPIED: Final = HazardKind(
    name="second copy",
    find=_copied_hazards,
    what="{first} is loaded anew",
    threads="by thread {first}, and thread {second} has its first copy",
    delays=no_delay,
    hands_out=_receives(""),
    advice="leave {first} in sys.modules while another thread uses it",
    is_preloadable=False,
    rule=Rule(
        id="import-race/second-copy",
        severity=Severity.WARNING,
        meaning="Code takes a module out of `sys.modules` (`del sys.modules[…]`, `mock.patch.dict`), and "
        "a thread imports it anew. Another thread has the first copy, and nothing orders the two. Classes, "
        "locks and caches of the module exist twice then: `isinstance` and `except` do not match.",
        remedy="Leave the module in `sys.modules` while another thread uses it, or end that thread before.",
    ),
)
