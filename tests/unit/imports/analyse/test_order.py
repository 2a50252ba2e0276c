# SPDX-License-Identifier: Apache-2.0
from ci_doctor.imports.analyse.order import Orders
from ci_doctor.imports.record.events import Begin, Order


def at(n: int, k: int) -> Begin:
    return Begin(t=0, n=n, k=k, name="m")


def test_events_of_one_thread_are_in_their_order() -> None:
    orders = Orders([])
    assert orders.before(at(0, 1), at(0, 2))
    assert not orders.before(at(0, 2), at(0, 2))


def test_an_order_holds_from_its_event_on_until_the_next_one() -> None:
    orders = Orders([Order(n=1, k=3, clock={0: 5}), Order(n=1, k=6, clock={0: 9})])
    assert not orders.before(at(0, 1), at(1, 2))
    assert orders.before(at(0, 5), at(1, 3))
    assert not orders.before(at(0, 6), at(1, 5))
    assert orders.before(at(0, 9), at(1, 6))
    assert not orders.before(at(1, 1), at(0, 9))
