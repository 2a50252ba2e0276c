# SPDX-License-Identifier: Apache-2.0
"""Self-replacing modules that two threads import."""

from ci_doctor.imports.analyse.find_hazards import find_hazards
from ci_doctor.imports.analyse.hazard import Closeness, HazardKind
from tests.unit.imports.traces import MS, Trace, only_hazard


def replaced_then_asked(*names: str) -> Trace:
    trace = Trace()
    trace.background()
    trace.load(1, "lazy", replaced=True)
    trace.ask(0, "lazy", *names)
    return trace


def test_a_replaced_module_that_another_thread_asks_for_later_is_latent() -> None:
    hazard = only_hazard(replaced_then_asked("Thing"))
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
    hazard = only_hazard(trace)
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
    hazard = only_hazard(trace)
    assert (hazard.closeness, hazard.margin_ns) == (Closeness.NEAR, -MS)
    assert hazard.detail == "the second import came 1 ms before the first had ended"
