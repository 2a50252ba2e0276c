# SPDX-License-Identifier: Apache-2.0
"""Wrong objects that a waiting thread receives, and failed imports."""

from ci_doctor.imports.analyse.find_hazards import find_hazards
from ci_doctor.imports.analyse.hazard import Closeness, HazardKind
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
        HazardKind.FAILED,
        Closeness.LATENT,
        ("broken",),
    )


def test_a_from_import_of_a_module_that_always_fails_raises_either_way() -> None:
    assert find_hazards(failed("Thing").process()).hazards == ()


def test_a_from_import_of_a_module_that_fails_only_once_is_told() -> None:
    assert only_hazard(failed("Thing", again="loaded")).kind is HazardKind.FAILED


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
