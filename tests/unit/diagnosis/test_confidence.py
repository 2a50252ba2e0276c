# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from msgspec import structs

from ci_doctor.diagnosis.calibration import calibration
from ci_doctor.diagnosis.confidence import features, probability
from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.rank import Ranked, rank
from ci_doctor.diagnosis.standing import ExceptionStanding
from tests.support.candidates import a_candidate


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
    ranked: list[Ranked] = rank([a_candidate(1, standing=ExceptionStanding.TOLERATED)])
    assert features(ranked)["tolerated"] == 1.0
