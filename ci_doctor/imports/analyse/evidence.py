# SPDX-License-Identifier: Apache-2.0
"""The two imports of a hazard, and how close they came, from what was recorded. Pure."""

from collections.abc import Iterable, Sequence

from ci_doctor.imports.analyse.forest import LockNode
from ci_doctor.imports.analyse.hazard import Closeness, Import
from ci_doctor.imports.analyse.history import History, Load
from ci_doctor.imports.record.events import Ask, Site


def of_ask(history: History, ask: Ask) -> Import:
    """The import that `ask` is a record of."""
    return _import(history, ask.n, ask.name, ask, history.chain(ask), ask.t)


def of_taken(history: History, n: int, node: LockNode) -> Import:
    """The import by which thread `n` would take `node` if it came first; its time is that of what it did ask for."""
    asks = node.asks()
    made = asks[-1] if asks[-1].n == n else node.entry
    return _import(history, n, node.name, asks[-1], _sites(ask.site for ask in asks), made.t)


def _sites(sites: Iterable[Site]) -> tuple[Site, ...]:
    found: list[Site] = []
    for site in sites:
        if not found or found[-1] != site:
            found.append(site)
    return tuple(found)


def _import(
    history: History, n: int, name: str, ask: Ask, chain: Sequence[Site], began_ns: int
) -> Import:
    thread = history.process.threads[n]
    load = history.load_by(n, name)
    return Import(
        thread=thread.name,
        name=name,
        site=ask.site,
        chain=tuple(chain),
        began_ns=began_ns,
        ended_ns=load.end.t if load is not None and load.end is not None else None,
        names=ask.names if ask.name == name else (),
        thread_started_at=thread.started_at,
    )


def margin(load: Load | None, ask_ns: int) -> int | None:
    """From the end of `load` to the ask, in nanoseconds; None where the end is not known."""
    return None if load is None or load.end is None else ask_ns - load.end.t


def overlap(load: Load | None, ask_ns: int) -> Closeness:
    """Whether the ask came while the module was loaded."""
    return Closeness.NEAR if load is not None and ask_ns in load else Closeness.LATENT


def how_close(margin_ns: int | None) -> str:
    """`margin_ns` as a sentence without its full stop."""
    if margin_ns is None:
        return "it is not recorded when the first import ended"
    if margin_ns < 0:
        return f"the second import came {duration(-margin_ns)} before the first had ended"
    return f"the second import came {duration(margin_ns)} after the first had ended"


def duration(nanoseconds: int) -> str:
    """Two digits that count, as a person says them."""
    if nanoseconds < 1_000_000:
        return f"{nanoseconds / 1e6:.2g} ms"
    if nanoseconds < 1_000_000_000:
        return f"{nanoseconds / 1e6:.0f} ms"
    return f"{nanoseconds / 1e9:.1f} s"
