"""Which values of a parametrized test are in the gate."""

import pytest

from tests.support.gate import in_the_gate


@pytest.mark.parametrize(
    ("count", "of", "chosen"),
    [(1, 5, {0}), (2, 5, {0, 2}), (3, 12, {0, 4, 8}), (4, 4, {0, 1, 2, 3}), (9, 2, {0, 1})],
)
def test_values_are_spread_evenly(count: int, of: int, chosen: set[int]) -> None:
    assert in_the_gate(count, of) == chosen
