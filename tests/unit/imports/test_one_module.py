# SPDX-License-Identifier: Apache-2.0
"""Modules that replace themselves, fail, or are reloaded."""

import pytest

from ci_doctor.imports.hazards import find_hazards
from ci_doctor.imports.one_module import COPIED, FAILED, RELOAD, REPLACED
from ci_doctor.model.facts.import_race import Closeness
from tests.unit.imports.traces import MS, Trace, only_hazard


def handed_out() -> Trace:
    trace = Trace()
    trace.background()
    trace.ask(1, "lazy")
    trace.begin(1, "lazy")
    trace.ask(0, "lazy", "Thing")
    trace.end(1, replaced=True)
    trace.event("wait", 0, "lazy", 1, 2 * MS, "replaced")
    return trace


def test_a_thread_that_missed_a_name_in_the_discarded_object_has_fired() -> None:
    trace = handed_out()
    trace.event("missing", 0, "lazy", "Thing", "app.py", 10, "__main__")
    assert only_hazard(trace).closeness is Closeness.FIRED


def test_a_thread_that_missed_nothing_in_the_discarded_object_was_only_handed_it() -> None:
    hazard = only_hazard(handed_out())
    assert hazard.closeness is Closeness.HANDED_OUT
    assert hazard.detail == "the second import waited 2 ms and was handed the discarded object"


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
    hazard = only_hazard(failed())
    assert (hazard.kind, hazard.closeness, hazard.modules) == (
        FAILED.name,
        Closeness.LATENT,
        ("broken",),
    )


def test_a_from_import_of_a_module_that_always_fails_raises_either_way() -> None:
    assert find_hazards(failed("Thing").process()).hazards == ()


def test_a_from_import_of_a_module_that_fails_only_once_is_told() -> None:
    assert only_hazard(failed("Thing", again="loaded")).kind == FAILED.name


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


def replaced_then_asked(*names: str) -> Trace:
    trace = Trace()
    trace.background()
    trace.load(1, "lazy", replaced=True)
    trace.ask(0, "lazy", *names)
    return trace


def test_a_replaced_module_that_another_thread_asks_for_later_is_latent() -> None:
    hazard = only_hazard(replaced_then_asked("Thing"))
    assert (hazard.kind, hazard.closeness, hazard.modules) == (
        REPLACED.name,
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


RELOADED = ("reload", 0, "config", "app.py", 30, "__main__")


def users() -> Trace:
    trace = Trace()
    trace.load(0, "config")
    trace.background()
    trace.ask(1, "config")
    return trace


def test_a_reload_that_nothing_orders_with_a_user_of_the_module_is_told() -> None:
    trace = users()
    trace.event(*RELOADED)

    hazard = only_hazard(trace)

    assert (hazard.kind, hazard.closeness) == (RELOAD.name, Closeness.LATENT)
    assert (hazard.first.site.line, hazard.second.thread) == (30, "Thread-1")


def test_a_reload_after_the_thread_has_ended_is_safe() -> None:
    trace = users()
    trace.after(0, 1)
    trace.event(*RELOADED)

    assert find_hazards(trace.process()).hazards == ()


def test_a_reload_before_the_thread_starts_is_safe() -> None:
    trace = Trace()
    trace.load(0, "config")
    trace.event(*RELOADED)
    trace.background()
    trace.ask(1, "config")

    assert find_hazards(trace.process()).hazards == ()


def test_a_second_copy_that_nothing_orders_with_a_user_of_the_first_is_a_hazard() -> None:
    trace = users()
    trace.load(0, "config")

    hazard = only_hazard(trace)

    assert (hazard.kind, hazard.closeness) == (COPIED.name, Closeness.LATENT)
    assert (hazard.first.thread, hazard.second.thread) == ("MainThread", "Thread-1")


def test_a_second_copy_after_the_thread_has_ended_is_safe() -> None:
    trace = users()
    trace.after(0, 1)
    trace.load(0, "config")

    assert find_hazards(trace.process()).hazards == ()


def test_a_thread_that_has_the_second_copy_alone_is_safe() -> None:
    trace = Trace()
    trace.load(0, "config")
    trace.load(0, "config")
    trace.background()
    trace.ask(1, "config")

    assert find_hazards(trace.process()).hazards == ()


def test_a_module_that_failed_before_has_one_copy() -> None:
    trace = Trace()
    trace.background()
    trace.load(0, "config", status="failed")
    trace.load(0, "config")
    trace.ask(1, "config")

    assert [each.kind for each in find_hazards(trace.process()).hazards] == [FAILED.name]


@pytest.mark.parametrize("name", ["other"])
def test_a_reload_of_what_no_other_thread_imports_is_safe(name: str) -> None:
    trace = users()
    trace.event("reload", 0, name, "app.py", 30, "__main__")

    assert find_hazards(trace.process()).hazards == ()
