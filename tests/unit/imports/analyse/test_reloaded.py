# SPDX-License-Identifier: Apache-2.0
"""Reloads in one thread of what another thread has imported."""

import pytest

from ci_doctor.imports.analyse.find_hazards import find_hazards
from ci_doctor.imports.analyse.hazard import Closeness, HazardKind
from tests.unit.imports.traces import Trace, only_hazard

RELOAD = ("reload", 0, "config", "app.py", 30, "__main__")


def users() -> Trace:
    trace = Trace()
    trace.load(0, "config")
    trace.background()
    trace.ask(1, "config")
    return trace


def test_a_reload_that_nothing_orders_with_a_user_of_the_module_is_told() -> None:
    trace = users()
    trace.event(*RELOAD)

    hazard = only_hazard(trace)

    assert (hazard.kind, hazard.closeness) == (HazardKind.RELOAD, Closeness.LATENT)
    assert (hazard.first.site.line, hazard.second.thread) == (30, "Thread-1")


def test_a_reload_after_the_thread_has_ended_is_safe() -> None:
    trace = users()
    trace.after(0, 1)
    trace.event(*RELOAD)

    assert find_hazards(trace.process()).hazards == ()


def test_a_reload_before_the_thread_starts_is_safe() -> None:
    trace = Trace()
    trace.load(0, "config")
    trace.event(*RELOAD)
    trace.background()
    trace.ask(1, "config")

    assert find_hazards(trace.process()).hazards == ()


@pytest.mark.parametrize("name", ["other"])
def test_a_reload_of_what_no_other_thread_imports_is_safe(name: str) -> None:
    trace = users()
    trace.event("reload", 0, name, "app.py", 30, "__main__")

    assert find_hazards(trace.process()).hazards == ()
