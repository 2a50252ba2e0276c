# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from msgspec import structs

from ci_doctor.diagnosis.log_rules import Role
from ci_doctor.diagnosis.rank import Candidate, calibration, features, probability, rank
from ci_doctor.diagnosis.tracebacks import ExceptionStanding
from tests.support.candidates import a_candidate
from tests.support.candidates import a_candidate as candidate


def first_line(*candidates: Candidate) -> int:
    return rank(candidates)[0].line.number


def test_the_earliest_of_equal_causes_is_first() -> None:
    assert first_line(candidate(9), candidate(3), candidate(5)) == 3


def test_a_cause_stands_before_an_earlier_symptom() -> None:
    assert first_line(candidate(1, Role.SYMPTOM), candidate(9)) == 9


def test_a_named_cause_stands_before_an_earlier_mere_error() -> None:
    assert first_line(candidate(1, Role.ERROR), candidate(9)) == 9


def test_the_step_that_failed_counts_more() -> None:
    outside = candidate(1, in_failed_step=False)
    assert first_line(outside, candidate(9, in_failed_step=True)) == 9


def test_what_a_good_run_holds_too_explains_nothing() -> None:
    known = candidate(1, in_good_run=True)
    assert first_line(known, candidate(9, Role.ERROR, in_good_run=False)) == 9


def test_among_logs_the_earlier_time_is_first() -> None:
    late = candidate(1, at_s=200.0)
    early = candidate(50, log=1, at_s=100.0)
    assert rank([late, early])[0].log == 1


def test_a_log_without_times_comes_after_one_with_times() -> None:
    timeless = candidate(1)
    timed = candidate(50, log=1, at_s=100.0)
    assert rank([timeless, timed])[0].log == 1


def test_nothing_has_no_rank() -> None:
    assert rank([]) == []


def test_what_stands_in_a_run_that_passed_comes_after_what_does_not() -> None:
    expected = candidate(1, Role.FAILURE, in_passed_run=True)
    assert first_line(expected, candidate(9, Role.ERROR)) == 9


def sure(**changes: Any) -> float:
    ranked = rank([a_candidate(100, **changes)])
    return probability(features(ranked), calibration().coefficients)


def test_every_coefficient_belongs_to_a_feature() -> None:
    assert set(calibration().coefficients) == set(features(rank([a_candidate(1)])))


def test_a_named_cause_alone_is_called_a_cause() -> None:
    assert sure(in_failed_step=True) > calibration().least


@pytest.mark.parametrize(
    "changes",
    [{"log_ended_well": True}, {"in_passed_run": True}, {"repeats": 5000}],
)
def test_what_speaks_against_a_failure_makes_it_less_sure(changes: dict[str, Any]) -> None:
    assert sure(**changes) < sure()


def test_a_log_that_ended_well_has_no_cause() -> None:
    assert sure(log_ended_well=True) < calibration().least


def test_a_rival_far_away_takes_the_lead_and_one_beside_it_does_not() -> None:
    first = a_candidate(100)
    beside = structs.replace(a_candidate(105, role=Role.FAILURE))
    far = structs.replace(a_candidate(900, role=Role.FAILURE))
    assert features(rank([first, beside]))["lead"] == 1.0
    assert features(rank([first, far]))["lead"] < 1.0


def test_a_tolerated_exception_is_known_as_such() -> None:
    ranked: list[Candidate] = rank([a_candidate(1, standing=ExceptionStanding.TOLERATED)])
    assert features(ranked)["tolerated"] == 1.0
