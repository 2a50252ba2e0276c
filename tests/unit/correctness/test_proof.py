# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.proof import counter_reading, not_risen
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


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"hits": 3.0}, {"hits": 131.0}, "3 -> 131, rose by 128 (> 10)"),
        ({}, {"hits_total": 64.0}, "absent -> 64, rose by 64 (> 10)"),
        ({"hits": 3.0}, {"hits": 4.5}, "3 -> 4.5, rose by 1.5 (> 10); not met"),
        ({"hits": 3.0}, {}, "absent; not met"),
        (None, {"hits": 4.0}, "absent -> 4, rose by 4 (> 10); not met"),
        ({"hits": 1e9}, {"hits": 1234567890.0}, "1000000000 -> 1234567890, rose by 234567890 (> 10)"),
    ],
)  # fmt: skip
def test_a_reading_tells_both_values_and_what_is_required(
    before: dict[str, float] | None, after: dict[str, float], words: str
) -> None:
    reading = counter_reading(Proof(metric="hits", above=10), "vllm", before, after)
    assert reading.in_words() == words
    assert reading.service == "vllm"
