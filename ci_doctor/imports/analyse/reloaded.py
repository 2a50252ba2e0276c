# SPDX-License-Identifier: Apache-2.0
"""Modules that one thread reloads while another one may use them. Pure."""

from collections.abc import Iterator

from ci_doctor.imports.analyse.evidence import import_of_ask
from ci_doctor.imports.analyse.hazard import Closeness, Hazard, HazardKind, Import
from ci_doctor.imports.analyse.history import History
from ci_doctor.imports.record.events import Ask, ImportEvent, Reload


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
