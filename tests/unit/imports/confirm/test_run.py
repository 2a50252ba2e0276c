# SPDX-License-Identifier: Apache-2.0
"""Which runs with a delay are made, and what they settle."""

import signal

import pytest

from ci_doctor.imports.analyse.hazard import HazardKind
from ci_doctor.imports.confirm.delays import Candidate, Hold
from ci_doctor.imports.confirm.run import Confirmation, HeldRun, confirm, time_limit_s
from ci_doctor.imports.record.events import Wait
from ci_doctor.imports.record.recorded import RecordedProcess
from tests.unit.imports.hazards_of import MET, NOT_MET, a_hazard, a_held_run, a_process, a_run


def received_wrong(*names: str) -> RecordedProcess:
    return a_process(
        *[
            Wait(t=1, n=0, k=1, name=name, owner=1, waited_ns=5, outcome="replaced")
            for name in names
        ]
    )


def candidates(*names: str) -> list[Candidate]:
    return [Candidate(hazards=(a_hazard(HazardKind.REPLACED, name),)) for name in names]


def test_a_candidate_is_tried_until_it_fires() -> None:
    said: list[str] = []

    def run(number: int, hold: Hold) -> HeldRun:
        return a_held_run(received_wrong("lazy") if number == 2 else NOT_MET, number=number)

    (confirmation,) = confirm(candidates("lazy"), run, said.append)

    assert [each.number for each in confirmation.runs] == [1, 2]
    assert confirmation.fired_in is confirmation.runs[1]
    assert said == ["confirming 1/1: holding lazy until another thread asks for it…"] * 2


def test_what_fired_in_anothers_run_needs_none_of_its_own() -> None:
    def run(number: int, hold: Hold) -> HeldRun:
        return a_held_run(received_wrong("lazy", "other"), number=number)

    first, second = confirm(candidates("lazy", "other"), run, lambda _: None)

    assert (len(first.runs), len(second.runs)) == (1, 0)
    assert second.fired_in is first.fired_in


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
