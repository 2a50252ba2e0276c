# SPDX-License-Identifier: Apache-2.0
"""What harm a hazard did."""

from typing import Any

import pytest

from ci_doctor.imports.crossings import CYCLE
from ci_doctor.imports.hazard import HazardKind
from ci_doctor.imports.hazards import HarmKind, harms, newly_failed, was_handed_out
from ci_doctor.imports.one_module import FAILED, REPLACED
from ci_doctor.imports.trace import (
    Deadlock,
    End,
    HeldImport,
    ImportEvent,
    Missing,
    RecordedProcess,
    RecordedThread,
    Wait,
)
from ci_doctor.model.facts.import_race import Site
from tests.unit.imports.hazards_of import a_hazard, a_process

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
    ("hazard", "event", "kind"),
    [
        (A_CYCLE, missing("a"), HarmKind.MISSING_NAME),
        (A_CYCLE, deadlock("a", "b", raised=True), HarmKind.DEADLOCK_ERROR),
        (A_FAILURE, wait("lazy", "removed"), HarmKind.UNFINISHED_MODULE),
        (A_CYCLE, missing("other"), None),
        (A_CYCLE, deadlock("a", "b"), None),
        (A_CYCLE, deadlock("a", "other", raised=True), None),
        (a_hazard(REPLACED, "lazy"), wait("lazy"), None),
    ],
)
def test_harm_is_what_a_thread_misses_in_what_it_was_handed(
    hazard: Any, event: ImportEvent, kind: HarmKind | None
) -> None:
    assert [harm.kind for harm in harms(hazard, [process(event)])] == [kind] * (kind is not None)


def test_a_missing_name_has_its_thread_and_its_place() -> None:
    (harm,) = harms(A_CYCLE, [process(missing("a", "name"))])

    assert (harm.thread, harm.name, harm.attribute, harm.site) == ("main", "a", "name", SITE)


def test_a_name_that_the_complete_module_does_not_have_was_not_missing() -> None:
    events = missing("a", "optional"), missing("a", "name")

    found = harms(A_CYCLE, [process(*events, absent=frozenset({("a", "optional")}))])

    assert [harm.attribute for harm in found] == ["name"]


def test_imports_that_fail_in_one_run_only_are_told() -> None:
    recorded = [process(end("good", "loaded"), end("never", "missing"), end("twice", "loaded"))]
    recorded.append(process(end("twice", "failed")))
    held = [process(end("good", "failed"), end("never", "missing"), end("twice", "failed"))]

    assert newly_failed(recorded, held) == ("good",)
    assert newly_failed(recorded, recorded) == ()
