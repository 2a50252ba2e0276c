# SPDX-License-Identifier: Apache-2.0
"""Cycles and submodule orders between two threads."""

from ci_doctor.imports.crossings import CYCLE, SUBMODULE
from ci_doctor.imports.hazards import find_hazards
from ci_doctor.model.facts.import_race import Closeness
from tests.unit.imports.traces import MS, cycle, only_hazard, played


def test_two_ways_into_a_cycle_can_meet() -> None:
    hazard = only_hazard(cycle("b"))
    assert (hazard.kind, hazard.closeness, hazard.pair) == (
        CYCLE.name,
        Closeness.LATENT,
        ("a", "b"),
    )
    assert (hazard.first.name, hazard.second.name, hazard.margin_ns) == ("a", "b", MS)


def test_one_way_into_a_cycle_cannot_meet_itself() -> None:
    assert find_hazards(cycle("a").process()).hazards == ()


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


def test_a_submodule_that_is_asked_for_by_a_thread_which_its_package_starts_meets_nothing_by_itself() -> (
    None
):
    trace = played(
        "0 ask pkg; 0 begin pkg; thread pkg; 1 ask pkg.sub; 1 begin pkg.sub; 1 end; 0 ask pkg.sub; 0 end"
    )
    assert find_hazards(trace.process()).hazards == ()


def test_a_submodule_that_waits_for_the_package_which_started_its_thread_can_meet_it() -> None:
    trace = played(
        "0 ask pkg; 0 begin pkg; thread pkg; 1 ask pkg.sub; 1 begin pkg.sub; 1 ask pkg name; 1 end; "
        "0 ask pkg.sub; 0 end"
    )
    assert only_hazard(trace).kind == SUBMODULE.name


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
