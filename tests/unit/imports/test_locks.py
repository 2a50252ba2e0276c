# SPDX-License-Identifier: Apache-2.0
"""What modules need, and which of them need each other."""

from ci_doctor.imports.locks import Orders, reach
from ci_doctor.imports.trace import Begin, Order
from tests.unit.imports.traces import Trace, only_hazard


def _reach(needs: dict[str, list[str]]) -> dict[str, set[str]]:
    names = list(needs)
    bits = {name: 1 << number for number, name in enumerate(names)}
    return {
        name: {each for each in names if all_ & bits[each]}
        for name, all_ in reach(bits, needs).items()
    }


def test_modules_that_need_each_other_reach_the_same_and_all_that_they_lead_to() -> None:
    found = _reach({"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": ["e"], "e": []})
    assert found["a"] == found["b"] == found["c"] == set("abcde")
    assert (found["d"], found["e"]) == ({"d", "e"}, {"e"})


def test_a_chain_longer_than_pythons_stack_is_followed() -> None:
    names = [f"m{number}" for number in range(5_000)]
    bits = {name: 1 << number for number, name in enumerate(names)}
    needs = {name: [names[index - 1]] for index, name in enumerate(names)}
    assert set(reach(bits, needs).values()) == {(1 << 5_000) - 1}


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


def test_the_chain_leads_from_the_outermost_statement_to_the_import() -> None:
    trace = Trace()
    trace.background()
    trace.ask(1, "outer", line=3)
    trace.begin(1, "outer")
    trace.ask(1, "inner", line=5)
    trace.begin(1, "inner")
    trace.ask(1, "lazy", line=7)
    trace.begin(1, "lazy")
    for is_lazy in (True, False, False):
        trace.end(1, replaced=is_lazy)
    trace.ask(0, "lazy", "Thing", line=9)
    hazard = only_hazard(trace)
    assert [(site.file, site.line) for site in hazard.first.chain] == [
        ("app.py", 3),
        ("outer.py", 5),
        ("inner.py", 7),
    ]
    assert [(site.file, site.line) for site in hazard.second.chain] == [("app.py", 9)]
