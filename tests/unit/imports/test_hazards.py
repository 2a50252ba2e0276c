# SPDX-License-Identifier: Apache-2.0
"""All hazards of a process and of a run: locks, cycles, and submodule orders between two threads."""

from typing import Any

import pytest

from ci_doctor.imports.crossings import CYCLE, SUBMODULE, HazardKind
from ci_doctor.imports.hazards import find_hazards, find_in_all, harms, newly_failed, was_handed_out
from ci_doctor.imports.locks import Orders, reach
from ci_doctor.imports.one_module import FAILED, REPLACED
from ci_doctor.imports.trace import (
    Begin,
    Deadlock,
    End,
    HeldImport,
    ImportEvent,
    Missing,
    Order,
    RecordedProcess,
    RecordedThread,
    Wait,
)
from ci_doctor.model.facts.import_race import Closeness, Site
from tests.unit.imports.hazards_of import a_hazard, a_process, a_run
from tests.unit.imports.traces import MS, Trace, cycle, only_hazard, played


def test_of_one_place_only_the_closest_pair_is_told() -> None:
    trace = Trace()
    for n in range(1, 5):
        trace.thread(n, f"Thread-{n}", 0, "app.py", 5, "__main__")
    trace.load(1, "lazy", replaced=True)
    for n in range(2, 5):
        trace.ask(n, "lazy", "Thing", line=30)
    assert only_hazard(trace).second.thread == "Thread-2"


def test_the_worst_comes_first() -> None:
    trace = cycle("b")
    trace.load(1, "lazy", replaced=True)
    trace.load(1, "other", replaced=True)
    trace.ask(0, "lazy", "Thing")
    trace.ask(0, "other", "Thing")
    trace.event("wait", 0, "other", 1, MS, "replaced")
    hazards = find_hazards(trace.process()).hazards
    assert [hazard.closeness for hazard in hazards] == [
        Closeness.HANDED_OUT,
        Closeness.LATENT,
        Closeness.LATENT,
    ]
    margins = [hazard.margin_ns or 0 for hazard in hazards[1:]]
    assert margins == sorted(margins)


def test_many_modules_and_threads_are_bounded_and_the_bound_is_told() -> None:
    trace = Trace()
    names = [f"m{index}" for index in range(1500)]
    for n in range(1, 13):
        trace.thread(n, f"Thread-{n}", 0, "app.py", n, "__main__")
    trace.ask(1, names[0])
    trace.begin(1, names[0])
    for index, name in enumerate(names[1:], start=1):
        for back in range(1, min(index, 6)):
            trace.ask(1, names[index - back])
        trace.ask(1, name)
        trace.begin(1, name)
    for _ in names:
        trace.end(1, replaced=False)
    for n in range(2, 13):
        trace.ask(n, names[100 * n])
    found = find_hazards(trace.process())
    assert [hazard.kind for hazard in found.hazards] == [CYCLE.name]
    assert "there may be more" in found.hazards[0].detail
    assert not found.is_whole


def test_one_way_into_a_cycle_is_no_hazard_and_a_bound_that_is_reached_is_told_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = find_hazards(cycle("a").process())
    monkeypatch.setattr("ci_doctor.imports.hazards._VISITS", 0)
    cut = find_hazards(cycle("gate", gate=True).process())
    assert (whole.hazards, whole.is_whole) == ((), True)
    assert (cut.hazards, cut.is_whole) == ((), False)


def test_of_a_group_the_pair_is_told_that_can_hold_each_other_up() -> None:
    # x imports u, which needs x, and then y; y imports u. When x comes to y, u is loaded: only u and x can meet.
    first = "1 ask x; 1 begin x; 1 ask u; 1 begin u; 1 ask x; 1 end"
    then = "1 ask y; 1 begin y; 1 ask u; 1 end; 1 end"
    hazard = only_hazard(played(f"thread; {first}; {then}; 0 ask y"))
    assert (hazard.pair, hazard.closeness) == (("x", "u"), Closeness.LATENT)
    assert [site.file for site in hazard.second.chain] == ["app.py", "y.py"]


def replacing() -> RecordedProcess:
    return played("thread; 1 load lazy replaced; 0 ask lazy").process()


def test_an_immune_interpreter_is_spared_from_self_replacing_modules_alone() -> None:
    run = a_run(replacing(), cycle("b").process())

    immune = find_in_all(run, {"/py": False})
    exposed = find_in_all(run, {"/py": True})

    assert [hazard.modules for hazard in immune.hazards] == [("a", "b")]
    assert [hazard.modules for hazard in exposed.hazards] == [("lazy",), ("a", "b")]


def test_an_interpreter_that_could_not_be_checked_is_not_taken_for_immune() -> None:
    assert len(find_in_all(a_run(replacing()), {"/py": None}).hazards) == 1


SITE = Site(file="app.py", line=7, module="__main__")
A_CYCLE = a_hazard(CYCLE, "a", "b")
A_FAILURE = a_hazard(FAILED, "lazy")


def wait(name: str, outcome: str = "replaced") -> Wait:
    return Wait(t=1, n=0, k=1, name=name, owner=1, waited_ns=5, outcome=outcome)  # type: ignore[arg-type]


def deadlock(name: str, *held: str, raised: bool = False) -> Deadlock:
    return Deadlock(t=1, n=0, k=1, name=name, owner=1, held=held, raised=raised)


def missing(name: str, attribute: str = "x") -> Missing:
    return Missing(t=1, n=0, k=1, name=name, attribute=attribute, site=SITE)


def end(name: str, status: str) -> End:
    return End(t=1, n=0, k=1, name=name, status=status, replaced=False)  # type: ignore[arg-type]


def process(*events: ImportEvent, **fields: Any) -> RecordedProcess:
    return a_process(*events, threads={0: RecordedThread(number=0, name="main")}, **fields)


@pytest.mark.parametrize(
    ("kind", "event", "expected"),
    [
        (REPLACED, wait("lazy"), True),
        (REPLACED, wait("lazy", "same"), False),
        (REPLACED, wait("lazy", "removed"), False),
        (REPLACED, wait("other"), False),
        (FAILED, wait("lazy", "removed"), True),
        (FAILED, wait("lazy"), False),
        (REPLACED, HeldImport(t=1, n=0, k=1, name="lazy", limit_ns=2, met=True), False),
    ],
)
def test_one_module_is_handed_out_if_a_thread_received_the_wrong_object(
    kind: HazardKind, event: ImportEvent, expected: bool
) -> None:
    assert was_handed_out(a_hazard(kind, "lazy"), [a_process(), a_process(event)]) is expected


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (deadlock("a", "b"), True),
        (deadlock("b", "x", "a"), True),
        (deadlock("a", "x"), False),
        (deadlock("x", "a"), False),
        (wait("a"), False),
    ],
)
def test_a_cycle_is_handed_out_if_both_locks_of_the_deadlock_are_its_own(
    event: ImportEvent, expected: bool
) -> None:
    assert was_handed_out(A_CYCLE, [a_process(event)]) is expected


@pytest.mark.parametrize(
    ("hazard", "event", "is_harm"),
    [
        (A_CYCLE, missing("a"), True),
        (A_CYCLE, deadlock("a", "b", raised=True), True),
        (A_FAILURE, wait("lazy", "removed"), True),
        (A_CYCLE, missing("other"), False),
        (A_CYCLE, deadlock("a", "b"), False),
        (A_CYCLE, deadlock("a", "other", raised=True), False),
        (a_hazard(REPLACED, "lazy"), wait("lazy"), False),
    ],
)
def test_harm_is_what_a_thread_misses_in_what_it_was_handed(
    hazard: Any, event: ImportEvent, is_harm: bool
) -> None:
    assert list(harms(hazard, [process(event)])) == [("main", event)] * is_harm


def test_a_name_that_the_complete_module_does_not_have_was_not_missing() -> None:
    events = missing("a", "optional"), missing("a", "name")

    found = harms(A_CYCLE, [process(*events, absent=frozenset({("a", "optional")}))])

    assert list(found) == [("main", events[1])]


def test_imports_that_fail_in_one_run_only_are_told() -> None:
    recorded = [process(end("good", "loaded"), end("never", "missing"), end("twice", "loaded"))]
    recorded.append(process(end("twice", "failed")))
    held = [process(end("good", "failed"), end("never", "missing"), end("twice", "failed"))]

    assert newly_failed(recorded, held) == ("good",)
    assert newly_failed(recorded, recorded) == ()


def test_modules_that_need_each_other_reach_the_same_and_all_that_they_lead_to() -> None:
    bits = {name: 1 << number for number, name in enumerate("edcba")}
    needs = {"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": ["e"], "e": []}
    found = reach(bits, needs)
    assert found == {"a": 0b11111, "b": 0b11111, "c": 0b11111, "d": 0b00011, "e": 0b00001}


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


def test_two_ways_into_a_cycle_can_meet() -> None:
    hazard = only_hazard(cycle("b"))
    assert (hazard.kind, hazard.closeness, hazard.pair) == (
        CYCLE.name,
        Closeness.LATENT,
        ("a", "b"),
    )
    assert (hazard.first.name, hazard.second.name, hazard.margin_ns) == ("a", "b", MS)


def test_a_module_that_both_go_through_keeps_them_apart() -> None:
    assert find_hazards(cycle("gate", gate=True).process()).hazards == ()
    assert only_hazard(cycle("b", gate=True)).kind == CYCLE.name


def test_a_cycle_after_a_join_is_safe() -> None:
    trace = cycle("c")
    trace.after(0, 1)
    trace.ask(0, "b")
    assert find_hazards(trace.process()).hazards == ()


PACKAGE = "thread; 1 ask pkg; 1 begin pkg; 1 ask pkg sub; 1 import_module pkg.sub; 1 begin pkg.sub; 1 end; 1 end"


def test_a_package_and_its_submodule_imported_by_two_threads_can_meet() -> None:
    hazard = only_hazard(played(f"{PACKAGE}; 0 ask pkg; 0 import_module pkg.sub"))
    assert (hazard.kind, hazard.modules, hazard.pair) == (
        SUBMODULE.name,
        ("pkg", "pkg.sub"),
        ("pkg", "pkg.sub"),
    )


def test_a_package_imported_by_both_threads_is_safe() -> None:
    trace = played(f"{PACKAGE}; 0 ask pkg")
    trace.ask(0, "pkg.sub", how="importlib", line=20)
    assert find_hazards(trace.process()).hazards == ()


@pytest.mark.parametrize(
    ("waits", "kinds"),
    [("", []), ("1 ask pkg name; ", [SUBMODULE.name])],
    ids=["by itself it meets nothing", "if it waits for the package it can meet it"],
)
def test_a_submodule_that_is_asked_for_by_a_thread_which_its_package_starts(
    waits: str, kinds: list[str]
) -> None:
    other = f"1 ask pkg.sub; 1 begin pkg.sub; {waits}1 end"
    trace = played(f"0 ask pkg; 0 begin pkg; thread pkg; {other}; 0 ask pkg.sub; 0 end")
    assert [hazard.kind for hazard in find_hazards(trace.process()).hazards] == kinds


def test_a_package_that_is_half_loaded_does_not_keep_its_submodules_apart() -> None:
    # pkg.d does not wait for pkg, which imports b while it is loaded; c and b import each other.
    loads = "1 ask pkg; 1 begin pkg; 1 ask b; 1 begin b; 1 ask c; 1 begin c; 1 ask b; 1 end; 1 end; 1 end"
    other = "0 ask pkg; 0 import_module pkg.d; 0 begin pkg.d; 0 ask c name; 0 end"
    hazard = only_hazard(played(f"thread; {loads}; {other}"))
    assert (hazard.kind, hazard.pair) == (CYCLE.name, ("b", "c"))


def test_a_deadlock_that_was_avoided_has_handed_out_an_incomplete_module() -> None:
    trace = cycle("b")
    trace.event("deadlock", 0, "a", 1, ("b",), False)
    hazard = only_hazard(trace)
    assert (hazard.closeness, hazard.pair) == (Closeness.HANDED_OUT, ("a", "b"))
    assert "holds b and went on without a" in hazard.detail


def test_a_deadlock_that_nothing_explains_is_told_too() -> None:
    trace = played("thread; 1 ask x; 0 ask y")
    trace.event("deadlock", 0, "x", 1, ("y", "x"), True)
    hazard = only_hazard(trace)
    assert (hazard.closeness, hazard.pair) == (Closeness.FIRED, ("x", "y"))


def test_an_import_that_failed_because_a_deadlock_was_avoided_is_told_once() -> None:
    trace = played("thread; 1 ask a; 1 begin a; 0 ask b; 0 begin b; 1 ask b; 0 ask a")
    trace.event("deadlock", 1, "b", 0, ("a",), True)
    trace.end(1, "failed")
    trace.event("wait", 0, "a", 1, MS, "removed")
    trace.end(0)
    hazard = only_hazard(trace)
    assert (hazard.kind, hazard.closeness) == (CYCLE.name, Closeness.FIRED)
