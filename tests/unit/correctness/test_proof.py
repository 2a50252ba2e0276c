# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.proof import not_risen
from ci_doctor.correctness.settings import Proof


@pytest.mark.parametrize(
    ("before", "after", "met"),
    [
        ({"hits": 1.0}, {"hits": 2.0}, True),
        ({}, {"hits": 1.0}, True),
        ({}, {"hits_total": 1.0}, True),
        ({"hits": 2.0}, {"hits": 2.0}, False),
        ({"hits": 2.0}, {"hits": 1.0}, False),
        ({}, {"hits": float("nan")}, False),
        ({}, {}, False),
        (None, {"hits": 9.0}, False),
        ({}, None, False),
    ],
)
def test_proof_is_a_counter_that_rises(
    before: dict[str, float] | None, after: dict[str, float] | None, met: bool
) -> None:
    assert (not_risen(Proof(metric="hits"), before, after) is None) is met
