# SPDX-License-Identifier: Apache-2.0
"""Modules that replace themselves, fail, or are reloaded."""

import pytest

from ci_doctor.imports.crossings import HazardKind
from ci_doctor.imports.hazards import find_hazards
from ci_doctor.imports.one_module import COPIED, FAILED, RELOAD, REPLACED
from ci_doctor.model.facts.import_race import Closeness
from tests.unit.imports.traces import MS, Trace, only_hazard, played


def handed_out() -> Trace:
    trace = played("thread; 1 ask lazy; 1 begin lazy; 0 ask lazy Thing; 1 end replaced")
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


USED = "0 load config; thread; 1 ask config"
SAFE = {
    "a from-import of a module that always fails": "thread; 1 load broken failed; 0 ask broken Thing; 0 begin broken; 0 end failed",
    "a failed import before the thread starts": "0 load broken failed; thread; 1 load broken failed",
    "a module that was not found": "thread; 1 load nowhere missing; 0 load nowhere missing",
    "import_module, which takes it anew": "thread; 1 import_module lazy; 1 begin lazy; 1 end replaced; 0 import_module lazy",
    "a plain module": "thread; 1 load plain; 0 ask plain",
    "a joined thread": "thread; 1 load lazy replaced; 0 after 1; 0 ask lazy Thing",
    "an import before the thread is started": "0 load lazy replaced; thread; 1 ask lazy Thing",
    "both within one module, whose lock keeps them apart": (
        "thread; 1 ask user; 1 begin user; 1 load lazy replaced; 1 end; 0 ask user; 0 ask lazy Thing"
    ),
    "a reload after the thread has ended": f"{USED}; 1 ended; 0 after 1; 0 reload config",
    "a reload after the end of a thread that imports nothing": (
        "0 load config; thread; 1 ended; 0 reload config"
    ),
    "a reload before the thread starts": "0 load config; 0 reload config; thread; 1 ask config",
    "a reload of what no other thread imports": f"{USED}; 0 reload other",
    "a second copy after the thread has ended": f"{USED}; 1 ended; 0 after 1; 0 load config",
    "a thread that has the second copy alone": "0 load config; 0 load config; thread; 1 ask config",
}


@pytest.mark.parametrize("events", SAFE.values(), ids=SAFE)
def test_what_cannot_meet_is_no_hazard(events: str) -> None:
    assert find_hazards(played(events).process()).hazards == ()


@pytest.mark.parametrize(
    "events",
    [
        "thread; 1 load broken failed; 0 ask broken; 0 begin broken; 0 end failed",
        "thread; 1 load broken failed; 0 ask broken Thing; 0 begin broken; 0 end",
        "thread; 0 load broken failed; 0 load broken; 1 ask broken",
    ],
    ids=["any import", "a from-import of what fails once", "no second copy"],
)
def test_the_unfinished_module_of_a_failed_import_can_be_handed_out(events: str) -> None:
    hazard = only_hazard(played(events))

    assert (hazard.kind, hazard.modules) == (FAILED.name, ("broken",))


def test_a_replaced_module_that_another_thread_asks_for_later_is_latent() -> None:
    hazard = only_hazard(played("thread; 1 load lazy replaced; 0 ask lazy Thing"))
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


def test_the_statement_is_in_danger_also_where_it_came_first_and_import_module_second() -> None:
    hazard = only_hazard(
        played("thread; 0 ask lazy Thing; 0 begin lazy; 0 end replaced; 1 import_module lazy")
    )
    assert (hazard.closeness, hazard.second.thread, hazard.margin_ns) == (
        Closeness.LATENT,
        "MainThread",
        None,
    )


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


def test_an_ask_while_the_other_thread_loads_it_is_near() -> None:
    trace = played("thread; 1 ask lazy; 1 begin lazy; 0 ask lazy Thing; 1 end replaced")
    trace.event("wait", 0, "lazy", 1, 2 * MS, "same")
    hazard = only_hazard(trace)
    assert (hazard.closeness, hazard.margin_ns) == (Closeness.NEAR, -MS)
    assert hazard.detail == "the second import came 1 ms before the first had ended"


@pytest.mark.parametrize(
    ("events", "kind", "threads"),
    [
        (f"{USED}; 0 reload config", RELOAD, ("MainThread", "Thread-1")),
        ("0 load config; thread; 0 reload config", RELOAD, ("MainThread", "Thread-1")),
        ("0 load config; thread; 1 reload config", RELOAD, ("Thread-1", "MainThread")),
        (f"{USED}; 0 after 1; 0 reload config", RELOAD, ("MainThread", "Thread-1")),
        (f"{USED}; 0 load config", COPIED, ("MainThread", "Thread-1")),
        ("0 load config; thread; 0 load config", COPIED, ("MainThread", "Thread-1")),
        ("0 load config; thread; 1 load config", COPIED, ("Thread-1", "MainThread")),
    ],
)
def test_a_second_execution_that_nothing_orders_with_a_user_of_the_module_is_a_hazard(
    events: str, kind: HazardKind, threads: tuple[str, str]
) -> None:
    hazard = only_hazard(played(events))

    assert (hazard.kind, hazard.closeness) == (kind.name, Closeness.LATENT)
    assert (hazard.first.thread, hazard.second.thread) == threads
