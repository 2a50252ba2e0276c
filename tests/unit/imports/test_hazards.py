# SPDX-License-Identifier: Apache-2.0
"""All hazards of a process and of a run."""

from typing import Any

import pytest

from ci_doctor.imports.crossings import CYCLE, HazardKind
from ci_doctor.imports.hazards import (
    find_hazards,
    find_in_all,
    harms,
    newly_failed,
    was_handed_out,
)
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


def test_a_bound_that_is_reached_is_told_if_no_hazard_was_found(
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
