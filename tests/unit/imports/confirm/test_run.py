# SPDX-License-Identifier: Apache-2.0
"""Which runs with a delay are made, and what they settle."""

import signal
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.imports.analyse.hazard import HazardKind
from ci_doctor.imports.confirm.delays import Hold, RaceCandidate
from ci_doctor.imports.confirm.run import Confirmation, HeldRun, confirm, time_limit_s
from ci_doctor.imports.record.events import Missing, Site, Wait
from ci_doctor.imports.record.recorded import RecordedProcess, RecordedThread
from tests.unit.imports.hazards_of import MET, NOT_MET, a_hazard, a_held_run, a_process, a_run


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
    return [RaceCandidate(hazards=(a_hazard(HazardKind.REPLACED, name),)) for name in names]


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
