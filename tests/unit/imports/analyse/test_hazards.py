# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.imports.analyse.hazard import Closeness, Hazard, HazardKind
from ci_doctor.imports.analyse.hazards import find_hazards
from tests.unit.imports.traces import MS, Trace


def only(trace: Trace) -> Hazard:
    hazards = find_hazards(trace.process()).hazards
    assert len(hazards) == 1, hazards
    return hazards[0]


def replaced_then_asked(*names: str) -> Trace:
    trace = Trace()
    trace.background()
    trace.load(1, "lazy", replaced=True)
    trace.ask(0, "lazy", *names)
    return trace


def test_a_replaced_module_that_another_thread_asks_for_later_is_latent() -> None:
    hazard = only(replaced_then_asked("Thing"))
    assert (hazard.kind, hazard.closeness, hazard.modules) == (
        HazardKind.REPLACED,
        Closeness.LATENT,
        ("lazy",),
    )
    assert (hazard.first.thread, hazard.second.thread, hazard.second.names) == (
        "Thread-1",
        "MainThread",
        ("Thing",),
    )
    assert hazard.margin_ns == MS
    assert hazard.detail == "the second import came 1 ms after the first had ended"
    assert (hazard.first.site.line, hazard.second.site.line) == (11, 10)


def test_import_module_takes_the_module_anew_so_it_is_no_hazard() -> None:
    trace = Trace()
    trace.background()
    trace.ask(1, "lazy", how="importlib")
    trace.begin(1, "lazy")
    trace.end(1, replaced=True)
    trace.ask(0, "lazy", how="importlib")
    assert find_hazards(trace.process()).hazards == ()


def test_the_statement_is_in_danger_also_where_it_came_first_and_import_module_second() -> None:
    trace = Trace()
    trace.background()
    trace.load(0, "lazy", "Thing", replaced=True)
    trace.ask(1, "lazy", how="importlib")
    hazard = only(trace)
    assert (hazard.closeness, hazard.second.thread, hazard.margin_ns) == (
        Closeness.LATENT,
        "MainThread",
        None,
    )


def test_a_plain_module_is_safe_in_two_threads() -> None:
    trace = Trace()
    trace.background()
    trace.load(1, "plain")
    trace.ask(0, "plain")
    assert find_hazards(trace.process()).hazards == ()


def test_a_joined_thread_is_safe() -> None:
    trace = Trace()
    trace.background()
    trace.load(1, "lazy", replaced=True)
    trace.after(0, 1)
    trace.ask(0, "lazy", "Thing")
    assert find_hazards(trace.process()).hazards == ()


def test_an_import_before_the_thread_is_started_is_safe() -> None:
    trace = Trace()
    trace.load(0, "lazy", "Thing", replaced=True)
    trace.background()
    trace.ask(1, "lazy", "Thing")
    assert find_hazards(trace.process()).hazards == ()


def test_an_import_whose_own_earlier_import_had_to_load_it_all_is_safe() -> None:
    trace = Trace()
    trace.background()
    trace.thread(2, "Thread-2", 0, "app.py", 6, "__main__")
    trace.ask(1, "user")
    trace.begin(1, "user")
    trace.load(1, "lazy", replaced=True)
    trace.end(1)
    trace.ask(2, "user", line=3)
    trace.after(0, 2)
    trace.ask(0, "lazy", "Thing")
    assert find_hazards(trace.process()).hazards == ()


def test_both_within_one_module_are_kept_apart_by_its_lock() -> None:
    trace = Trace()
    trace.background()
    trace.ask(1, "user")
    trace.begin(1, "user")
    trace.load(1, "lazy", replaced=True)
    trace.end(1)
    trace.ask(0, "user")
    trace.ask(0, "lazy", "Thing")
    assert find_hazards(trace.process()).hazards == ()


def test_an_ask_while_the_other_thread_loads_it_is_near() -> None:
    trace = Trace()
    trace.background()
    trace.ask(1, "lazy")
    trace.begin(1, "lazy")
    trace.ask(0, "lazy", "Thing")
    trace.end(1, replaced=True)
    trace.event("wait", 0, "lazy", 1, 2 * MS, "same")
    hazard = only(trace)
    assert (hazard.closeness, hazard.margin_ns) == (Closeness.NEAR, -MS)
    assert hazard.detail == "the second import came 1 ms before the first had ended"


def test_a_thread_that_was_handed_the_discarded_object_has_fired() -> None:
    trace = Trace()
    trace.background()
    trace.ask(1, "lazy")
    trace.begin(1, "lazy")
    trace.ask(0, "lazy", "Thing")
    trace.end(1, replaced=True)
    trace.event("wait", 0, "lazy", 1, 2 * MS, "replaced")
    hazard = only(trace)
    assert hazard.closeness is Closeness.FIRED
    assert hazard.detail == "the second import waited 2 ms and was handed the discarded object"


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
    hazard = only(trace)
    assert [(site.file, site.line) for site in hazard.first.chain] == [
        ("app.py", 3),
        ("outer.py", 5),
        ("inner.py", 7),
    ]
    assert [(site.file, site.line) for site in hazard.second.chain] == [("app.py", 9)]


def test_of_one_place_only_the_closest_pair_is_told() -> None:
    trace = Trace()
    for n in range(1, 5):
        trace.thread(n, f"Thread-{n}", 0, "app.py", 5, "__main__")
    trace.load(1, "lazy", replaced=True)
    for n in range(2, 5):
        trace.ask(n, "lazy", "Thing", line=30)
    assert only(trace).second.thread == "Thread-2"


def cycle(foreground: str, *, gate: bool = False) -> Trace:
    """A thread imports a, which imports b, which imports a; then the main thread imports `foreground`."""
    trace = Trace()
    trace.background()
    if gate:
        trace.ask(1, "gate")
        trace.begin(1, "gate")
    trace.ask(1, "a")
    trace.begin(1, "a")
    trace.ask(1, "b")
    trace.begin(1, "b")
    trace.ask(1, "a")
    for _ in range(2 + gate):
        trace.end(1)
    trace.ask(0, foreground)
    return trace


def test_two_ways_into_a_cycle_can_meet() -> None:
    hazard = only(cycle("b"))
    assert (hazard.kind, hazard.closeness, hazard.pair) == (
        HazardKind.CYCLE,
        Closeness.LATENT,
        ("a", "b"),
    )
    assert (hazard.first.name, hazard.second.name, hazard.margin_ns) == ("a", "b", MS)


def test_one_way_into_a_cycle_cannot_meet_itself() -> None:
    assert find_hazards(cycle("a").process()).hazards == ()


def test_a_module_that_both_go_through_keeps_them_apart() -> None:
    assert find_hazards(cycle("gate", gate=True).process()).hazards == ()
    assert only(cycle("b", gate=True)).kind is HazardKind.CYCLE


def test_a_cycle_after_a_join_is_safe() -> None:
    trace = cycle("c")
    trace.after(0, 1)
    trace.ask(0, "b")
    assert find_hazards(trace.process()).hazards == ()


def submodule() -> Trace:
    """A thread imports pkg, which imports pkg.sub."""
    trace = Trace()
    trace.background()
    trace.ask(1, "pkg")
    trace.begin(1, "pkg")
    trace.ask(1, "pkg", "sub")
    trace.ask(1, "pkg.sub", how="importlib")
    trace.begin(1, "pkg.sub")
    trace.end(1)
    trace.end(1)
    return trace


def test_a_package_and_its_submodule_imported_by_two_threads_can_meet() -> None:
    trace = submodule()
    trace.ask(0, "pkg", line=7)
    trace.ask(0, "pkg.sub", how="importlib", line=7)
    hazard = only(trace)
    assert (hazard.kind, hazard.modules, hazard.pair) == (
        HazardKind.SUBMODULE,
        ("pkg", "pkg.sub"),
        ("pkg", "pkg.sub"),
    )


def test_a_package_imported_by_both_threads_is_safe() -> None:
    trace = submodule()
    trace.ask(0, "pkg")
    trace.ask(0, "pkg.sub", how="importlib", line=20)
    assert find_hazards(trace.process()).hazards == ()


def test_a_submodule_that_is_asked_for_by_a_thread_which_its_package_starts_meets_nothing_by_itself() -> (
    None
):
    trace = Trace()
    trace.ask(0, "pkg")
    trace.begin(0, "pkg")
    trace.background("pkg")
    trace.ask(1, "pkg.sub")
    trace.begin(1, "pkg.sub")
    trace.end(1)
    trace.ask(0, "pkg.sub")
    trace.end(0)
    assert find_hazards(trace.process()).hazards == ()


def test_a_submodule_that_waits_for_the_package_which_started_its_thread_can_meet_it() -> None:
    trace = Trace()
    trace.ask(0, "pkg")
    trace.begin(0, "pkg")
    trace.background("pkg")
    trace.ask(1, "pkg.sub")
    trace.begin(1, "pkg.sub")
    trace.ask(1, "pkg", "name")
    trace.end(1)
    trace.ask(0, "pkg.sub")
    trace.end(0)
    assert only(trace).kind is HazardKind.SUBMODULE


def test_a_package_that_is_half_loaded_does_not_keep_its_submodules_apart() -> None:
    # pkg.d does not wait for pkg, which imports b while it is loaded; c and b import each other.
    trace = Trace()
    trace.background()
    trace.ask(1, "pkg")
    trace.begin(1, "pkg")
    trace.ask(1, "b")
    trace.begin(1, "b")
    trace.ask(1, "c")
    trace.begin(1, "c")
    trace.ask(1, "b")
    for _ in range(3):
        trace.end(1)
    trace.ask(0, "pkg", line=8)
    trace.ask(0, "pkg.d", how="importlib", line=8)
    trace.begin(0, "pkg.d")
    trace.ask(0, "c", "name")
    trace.end(0)
    hazard = only(trace)
    assert (hazard.kind, hazard.pair) == (HazardKind.CYCLE, ("b", "c"))


def test_a_deadlock_that_was_avoided_has_fired() -> None:
    trace = cycle("b")
    trace.event("deadlock", 0, "a", 1, ("b",))
    hazard = only(trace)
    assert (hazard.closeness, hazard.pair) == (Closeness.FIRED, ("a", "b"))
    assert "holds b and went on without a" in hazard.detail


def test_a_deadlock_that_nothing_explains_is_told_too() -> None:
    trace = Trace()
    trace.background()
    trace.ask(1, "x")
    trace.ask(0, "y")
    trace.event("deadlock", 0, "x", 1, ("y", "x"))
    hazard = only(trace)
    assert (hazard.closeness, hazard.pair) == (Closeness.FIRED, ("x", "y"))


def failed(*names: str, again: str | None = "failed") -> Trace:
    trace = Trace()
    trace.background()
    trace.load(1, "broken", status="failed")
    trace.ask(0, "broken", *names)
    if again:
        trace.begin(0, "broken")
        trace.end(0, again)
    return trace


def test_the_unfinished_module_of_a_failed_import_can_be_handed_out() -> None:
    hazard = only(failed())
    assert (hazard.kind, hazard.closeness, hazard.modules) == (
        HazardKind.FAILED,
        Closeness.LATENT,
        ("broken",),
    )


def test_a_from_import_of_a_module_that_always_fails_raises_either_way() -> None:
    assert find_hazards(failed("Thing").process()).hazards == ()


def test_a_from_import_of_a_module_that_fails_only_once_is_told() -> None:
    assert only(failed("Thing", again="loaded")).kind is HazardKind.FAILED


def test_a_failed_import_before_the_thread_starts_is_safe() -> None:
    trace = Trace()
    trace.load(0, "broken", status="failed")
    trace.background()
    trace.load(1, "broken", status="failed")
    assert find_hazards(trace.process()).hazards == ()


def test_a_module_that_was_not_found_is_safe() -> None:
    trace = Trace()
    trace.background()
    trace.load(1, "nowhere", status="missing")
    trace.load(0, "nowhere", status="missing")
    assert find_hazards(trace.process()).hazards == ()


def test_the_worst_comes_first() -> None:
    trace = cycle("b")
    trace.load(1, "lazy", replaced=True)
    trace.load(1, "other", replaced=True)
    trace.ask(0, "lazy", "Thing")
    trace.ask(0, "other", "Thing")
    trace.event("wait", 0, "other", 1, MS, "replaced")
    hazards = find_hazards(trace.process()).hazards
    assert [hazard.closeness for hazard in hazards] == [
        Closeness.FIRED,
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
    assert [hazard.kind for hazard in found.hazards] == [HazardKind.CYCLE]
    assert "there may be more" in found.hazards[0].detail
    assert not found.is_whole


def test_a_bound_that_is_reached_is_told_where_no_hazard_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = find_hazards(cycle("a").process())
    monkeypatch.setattr("ci_doctor.imports.analyse.hazards._VISITS", 0)
    cut = find_hazards(cycle("gate", gate=True).process())
    assert (whole.hazards, whole.is_whole) == ((), True)
    assert (cut.hazards, cut.is_whole) == ((), False)


def test_of_a_group_the_pair_is_told_that_can_hold_each_other_up() -> None:
    # x imports u, which needs x, and then y; y imports u. When x comes to y, u is loaded: only u and x can meet.
    trace = Trace()
    trace.background()
    trace.ask(1, "x")
    trace.begin(1, "x")
    trace.ask(1, "u")
    trace.begin(1, "u")
    trace.ask(1, "x")
    trace.end(1)
    trace.ask(1, "y")
    trace.begin(1, "y")
    trace.ask(1, "u")
    trace.end(1)
    trace.end(1)
    trace.ask(0, "y")
    hazard = only(trace)
    assert (hazard.pair, hazard.closeness) == (("x", "u"), Closeness.LATENT)
    assert [site.file for site in hazard.second.chain] == ["app.py", "y.py"]


def test_an_import_that_failed_because_a_deadlock_was_avoided_is_told_once() -> None:
    trace = Trace()
    trace.background()
    trace.ask(1, "a")
    trace.begin(1, "a")
    trace.ask(0, "b")
    trace.begin(0, "b")
    trace.ask(1, "b")
    trace.ask(0, "a")
    trace.event("deadlock", 1, "b", 0, ("a",))
    trace.end(1, "failed")
    trace.event("wait", 0, "a", 1, MS, "removed")
    trace.end(0)
    hazard = only(trace)
    assert (hazard.kind, hazard.closeness) == (HazardKind.CYCLE, Closeness.FIRED)
