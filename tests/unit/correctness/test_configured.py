# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.configured import parse_arm_variables
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import UsageError


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("candidate:X", "not ARM:NAME=VALUE"),
        ("X=1", "not ARM:NAME=VALUE"),
        ("candidate:=1", "not ARM:NAME=VALUE"),
        ("candidat:X=1", "unknown arm `candidat`"),
    ],
)
def test_a_variable_without_an_arm_or_a_name_is_refused(word: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_arm_variables([word])
    assert said in caught.value.message


def test_a_value_may_hold_anything() -> None:
    parsed = parse_arm_variables(
        ["candidate:X=a=b:c", "candidate:Y=", "baseline:X=1", "baseline:X=2"]
    )
    assert parsed == {Arm.BASELINE: {"X": "2"}, Arm.CANDIDATE: {"X": "a=b:c", "Y": ""}}
