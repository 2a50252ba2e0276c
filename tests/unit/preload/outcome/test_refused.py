# SPDX-License-Identifier: Apache-2.0
"""Refusals of different kinds in one outcome."""

from pathlib import Path

import pytest

from ci_doctor.errors import CiDoctorError, InfraError, PreparationError, UsageError
from ci_doctor.model.outcome import ErrorKind
from ci_doctor.model.verdict import Verdict
from ci_doctor.preload.outcome.refused import refused_fact, worst
from ci_doctor.preload.result import Refused

USAGE = UsageError("usage", hint="name another")
FINDING = PreparationError("finding")
INFRA = InfraError("infra")


def refused(*errors: CiDoctorError) -> list[Refused]:
    return [Refused(python=Path(error.message), error=error) for error in errors]


@pytest.mark.parametrize(
    ("errors", "verdict", "kind"),
    [
        ((INFRA, FINDING, USAGE), None, ErrorKind.USAGE),
        ((INFRA, FINDING), Verdict.FAILED, ErrorKind.PREPARATION),
        ((INFRA,), Verdict.INFRA, ErrorKind.INFRA),
    ],
)
def test_what_the_user_can_correct_comes_first(
    errors: tuple[CiDoctorError, ...], verdict: Verdict | None, kind: ErrorKind
) -> None:
    reached, failure = worst(refused(*errors))
    assert (reached, failure.kind) == (verdict, kind)


def test_of_one_kind_the_first_is_the_error() -> None:
    _, failure = worst(refused(UsageError("first"), UsageError("second")))
    assert failure.message == "first"


def test_a_refusal_keeps_its_hint_and_its_own_exit_code() -> None:
    (result,) = refused(USAGE)
    fact = refused_fact(result)
    assert (fact.state, fact.refused.hint, fact.refused.exit_code) == ("refused", "name another", 2)
