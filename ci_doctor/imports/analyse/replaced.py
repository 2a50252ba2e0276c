# SPDX-License-Identifier: Apache-2.0
"""Self-replacing modules as hazards. Pure.

CPython's C code takes the module from `sys.modules` before it waits for the module's lock, and
returns that object after the wait (CPython 3.8 to 3.12: `PyImport_ImportModuleLevelObject`).
`importlib.import_module` looks again.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ci_doctor.imports.analyse.evidence import how_close, import_of_node, margin, overlap
from ci_doctor.imports.analyse.forest import Forest, LockNode
from ci_doctor.imports.analyse.hazard import Closeness, Hazard, HazardKind
from ci_doctor.imports.analyse.history import History
from ci_doctor.imports.analyse.locks import ComparisonBudget, skips_into
from ci_doctor.imports.analyse.one_module import one_module_hazard


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
