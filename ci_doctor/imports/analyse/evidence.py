# SPDX-License-Identifier: Apache-2.0
"""The two imports of a hazard and how close they came, from the recorded events. Pure."""

from collections.abc import Iterable

from ci_doctor.imports.analyse.forest import LockNode
from ci_doctor.imports.analyse.hazard import Closeness, Import
from ci_doctor.imports.analyse.history import History, Load
from ci_doctor.imports.record.events import Ask, Site
from ci_doctor.render.formatting import duration


def import_of_ask(history: History, ask: Ask) -> Import:
    """The import that `ask` is a record of."""
    return _import(history, ask.n, ask.name, ask, history.chain(ask), ask.t)


def import_of_node(history: History, n: int, node: LockNode) -> Import:
    """The import by which thread `n` would load `node` if it came first."""
    asks = node.asks()
    innermost = asks[-1]
    # What is inside another thread's load has that thread's time: take the time of the own request.
    own = node.entry
    if innermost.n == n:
        own = innermost
    chain = _without_repeats(ask.site for ask in asks)
    return _import(history, n, node.name, innermost, chain, own.t)


def _without_repeats(sites: Iterable[Site]) -> tuple[Site, ...]:
    # `import a.b` is several requests of one line.
    chain: list[Site] = []
    for site in sites:
        if not chain or chain[-1] != site:
            chain.append(site)
    return tuple(chain)


def _import(
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
