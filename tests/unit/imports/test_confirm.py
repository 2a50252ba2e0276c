# SPDX-License-Identifier: Apache-2.0
"""Delays, runs with them, and what they show."""

import signal
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.imports.confirm import (
    Confirmation,
    HeldRun,
    RaceCandidate,
    confirm,
    grouped,
    judge,
    time_limit_s,
)
from ci_doctor.imports.crossings import CYCLE, SUBMODULE, HazardKind, Hold
from ci_doctor.imports.one_module import FAILED, REPLACED
from ci_doctor.imports.trace import HeldImport, Missing, RecordedProcess, RecordedThread, Wait
from ci_doctor.model.facts.import_race import Closeness, Site, Standing
from tests.unit.imports.hazards_of import MET, NOT_MET, RUN, a_hazard, a_held_run, a_process, a_run


def held(*, came: bool) -> HeldImport:
    return HeldImport(t=1, n=0, k=1, name="lazy", limit_ns=2, met=came)


@pytest.mark.parametrize("kind", [REPLACED, FAILED])
def test_one_module_is_held_while_its_code_runs(kind: HazardKind) -> None:
    (hold,) = kind.delays(a_hazard(kind, "a.b"))

    assert hold.text() == "exec a.b - 2"


@pytest.mark.parametrize("kind", [CYCLE, SUBMODULE])
def test_two_modules_are_held_together_and_then_each_of_them_late(kind: HazardKind) -> None:
    tried = [hold.text() for hold in kind.delays(a_hazard(kind, "a", "m", "b", pair=("a", "b")))]

    assert tried == ["together a b 2", "late a b 2", "late b a 2"]


@pytest.mark.parametrize(
    ("margin_ns", "limit_s"),
    [
        (None, 2.0),
        (0, 2.0),
        (-100_000_000, 2.0),
        (3_000_000_000, 7.0),
        (-3_000_000_000, 7.0),
        (10**12, 30.0),
    ],
)
def test_a_hold_lasts_twice_the_gap_and_a_second_within_bounds(
    margin_ns: int | None, limit_s: float
) -> None:
    assert {hold.limit_s for hold in REPLACED.delays(a_hazard(margin_ns=margin_ns))} == {limit_s}


def test_whether_a_delay_was_made_and_another_thread_came() -> None:
    runs = [
        a_held_run(a_process()),
        a_held_run(a_process(held(came=False))),
        a_held_run(a_process(), a_process(held(came=True))),
    ]
    assert [(run.was_held, run.met) for run in runs] == [
        (False, False),
        (True, False),
        (True, True),
    ]


def test_hazards_that_the_same_delays_decide_are_one_candidate_with_the_worst_first() -> None:
    near = a_hazard(closeness=Closeness.NEAR, pid=2)
    hazards = [
        a_hazard(),
        a_hazard(CYCLE, "a", "b"),
        near,
        a_hazard(CYCLE, "a", "c"),
    ]

    groups = grouped(hazards)

    assert [group.worst.modules for group in groups] == [("lazy",), ("a", "b"), ("a", "c")]
    assert groups[0].hazards == (near, hazards[0])
    assert not any(group.has_fired for group in groups)
    assert grouped([a_hazard(closeness=Closeness.FIRED)])[0].has_fired


def received_wrong(*names: str) -> RecordedProcess:
    return a_process(*map(_wait, names))


def missed(*names: str) -> RecordedProcess:
    site = Site(file="app.py", line=1, module="__main__")
    reads = [Missing(t=1, n=0, k=1, name=name, attribute="x", site=site) for name in names]
    thread = RecordedThread(number=0, name="main")
    return a_process(*map(_wait, names), *reads, threads={0: thread})


def _wait(name: str) -> Wait:
    return Wait(t=1, n=0, k=1, name=name, owner=1, waited_ns=5, outcome="replaced")


def candidates(*names: str) -> list[RaceCandidate]:
    return [RaceCandidate(hazards=(a_hazard(REPLACED, name),)) for name in names]


def test_a_candidate_is_tried_until_it_fires() -> None:
    said: list[str] = []

    def run(number: int, hold: Hold) -> HeldRun:
        return a_held_run(missed("lazy") if number == 2 else NOT_MET, number=number)

    (confirmation,) = confirm(candidates("lazy"), run, said.append)

    assert [each.number for each in confirmation.runs] == [1, 2]
    assert confirmation.fired_in is confirmation.runs[1]
    assert said == ["confirming 1/1: holding lazy until another thread asks for it…"] * 2


def test_what_fired_in_anothers_run_needs_none_of_its_own() -> None:
    def run(number: int, hold: Hold) -> HeldRun:
        return a_held_run(missed("lazy", "other"), number=number)

    first, second = confirm(candidates("lazy", "other"), run, lambda _: None)

    assert (len(first.runs), len(second.runs)) == (1, 0)
    assert second.fired_in is first.fired_in


def test_a_module_that_was_handed_out_without_harm_is_settled_by_one_run_of_each_delay() -> None:
    def run(number: int, hold: Hold) -> HeldRun:
        return replace(a_held_run(received_wrong("lazy"), number=number), hold=hold)

    (confirmation,) = confirm(candidates("lazy"), run, lambda _: None)

    assert len(confirmation.runs) == 1
    assert confirmation.handed_out_in == confirmation.runs
    assert (confirmation.fired_in, confirmation.is_settled) == (None, True)


@pytest.mark.parametrize(
    "wrong", [{"ended_as_recorded": False}, {"newly_failed": ("plugin",)}], ids=str
)
def test_a_module_that_was_handed_out_fired_if_the_run_went_wrong_in_another_way(
    wrong: dict[str, Any],
) -> None:
    good = a_held_run(received_wrong("lazy"))

    confirmation = Confirmation(candidate=candidates("lazy")[0])

    assert confirmation.with_run(good, is_own=True).fired_in is None
    assert confirmation.with_run(replace(good, **wrong), is_own=True).fired_in is not None
    not_handed_out = replace(a_held_run(NOT_MET), **wrong)
    assert confirmation.with_run(not_handed_out, is_own=True).fired_in is None


def test_no_run_is_made_after_a_signal() -> None:
    def run(number: int, hold: Hold) -> HeldRun:
        return a_held_run(number=number, received=signal.SIGTERM)

    first, second = confirm(candidates("lazy", "other"), run, lambda _: None)

    assert (len(first.runs), len(second.runs)) == (1, 0)
    assert not first.is_settled


@pytest.mark.parametrize(
    ("run", "settled"),
    [
        (a_held_run(NOT_MET), True),
        (a_held_run(a_process()), False),
        (a_held_run(MET, timed_out=True), False),
    ],
)
def test_a_run_settles_a_candidate_only_where_it_was_held_and_came_to_its_end(
    run: HeldRun, settled: bool
) -> None:
    assert Confirmation(candidate=candidates("lazy")[0], runs=(run,)).is_settled is settled


def test_a_run_with_a_delay_has_the_time_of_its_delays_in_every_process() -> None:
    hold = Hold(mode="exec", x="lazy", limit_s=3.0)

    assert time_limit_s(a_run(a_process(), a_process(), duration_s=4.0), hold, None) == 60 + 20 + 12
    assert time_limit_s(a_run(a_process()), hold, 10.0) == 10 + 6


UNDECIDED = a_held_run(a_process())


@pytest.mark.parametrize(
    ("runs", "fired_in", "standing"),
    [
        ((RUN,), RUN, Standing.CONFIRMED),
        ((RUN,), None, Standing.SAFE),
        ((UNDECIDED,), None, Standing.OPEN),
        ((), None, Standing.OPEN),
    ],
)
def test_the_runs_with_a_delay_decide(
    runs: tuple[HeldRun, ...], fired_in: HeldRun | None, standing: Standing
) -> None:
    candidate = RaceCandidate(hazards=(a_hazard(),))
    confirmation = Confirmation(candidate=candidate, runs=runs, fired_in=fired_in)

    (judged,) = judge([candidate], [confirmation], confirming=True)

    assert (judged.standing, judged.confirmation) == (standing, confirmation)


@pytest.mark.parametrize(
    ("closeness", "confirming", "standing"),
    [
        (Closeness.FIRED, False, Standing.FIRED),
        (Closeness.FIRED, True, Standing.FIRED),
        (Closeness.NEAR, False, Standing.POSSIBLE),
        (Closeness.LATENT, True, Standing.OPEN),
    ],
)
def test_without_a_run_it_depends_on_whether_runs_were_requested(
    closeness: Closeness, confirming: bool, standing: Standing
) -> None:
    candidate = RaceCandidate(hazards=(a_hazard(closeness=closeness),))

    (judged,) = judge([candidate], [], confirming=confirming)

    assert judged.standing is standing


@pytest.mark.parametrize(
    ("closeness", "handed_out_in", "run", "standing"),
    [
        (Closeness.LATENT, (RUN,), RUN, Standing.HARMLESS),
        (Closeness.HANDED_OUT, (), RUN, Standing.HARMLESS),
        (Closeness.HANDED_OUT, (), UNDECIDED, Standing.OPEN),
    ],
)
def test_what_was_handed_out_and_missed_nothing_is_harmless(
    closeness: Closeness, handed_out_in: tuple[HeldRun, ...], run: HeldRun, standing: Standing
) -> None:
    candidate = RaceCandidate(hazards=(a_hazard(closeness=closeness),))
    confirmation = Confirmation(candidate=candidate, runs=(run,), handed_out_in=handed_out_in)

    (judged,) = judge([candidate], [confirmation], confirming=True)

    assert judged.standing is standing


def test_what_was_handed_out_in_a_run_that_failed_has_fired() -> None:
    candidate = RaceCandidate(hazards=(a_hazard(closeness=Closeness.HANDED_OUT),))

    (judged,) = judge([candidate], [], confirming=False, command_failed=True)

    assert judged.standing is Standing.FIRED
