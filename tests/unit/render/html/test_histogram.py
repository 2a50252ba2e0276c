# SPDX-License-Identifier: Apache-2.0
"""What a page draws of first differences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.model.facts.correctness import DivergencePositions
from ci_doctor.render.html.matrix import Histogram, histogram
from tests.unit.render.strategies import patient


def _histogram(*positions: float | None, unit: str = "token") -> Histogram:
    drawn = histogram(DivergencePositions(positions=positions, unit=unit))
    assert drawn is not None
    return drawn


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60))
@patient
def test_every_position_is_in_one_bar_and_everything_lies_inside_the_picture(
    positions: list[int],
) -> None:
    drawn = _histogram(*positions)

    for bar in drawn.bars:
        assert bar.count == sum(bar.first <= position <= bar.last for position in positions)
        assert 0 <= bar.x < bar.x + bar.width <= 100.01
        assert 0 < bar.height <= 100
    assert sum(bar.count for bar in drawn.bars) == drawn.count == len(positions)
    assert 0 <= drawn.median_at <= 100
    assert 1 <= len(drawn.across) <= 6
    assert all(0 <= tick.at <= 100 for tick in (*drawn.across, *drawn.up))


def test_median_least_and_most_are_those_of_the_positions_that_are_known() -> None:
    drawn = _histogram(4, None, 37, 212, 38, unit="character")

    assert (drawn.least, drawn.median, drawn.most, drawn.unit, drawn.count) == (
        "4",
        "37",
        "212",
        "character",
        4,
    )


def test_bins_have_round_widths() -> None:
    assert {bar.last - bar.first + 1 for bar in _histogram(0, 212).bars} == {10}
    assert {bar.last - bar.first + 1 for bar in _histogram(3, 5).bars} == {1}


@pytest.mark.parametrize("positions", [(), (None,), (float("inf"),), (-1,)])
def test_without_positions_nothing_is_drawn(positions: tuple[float | None, ...]) -> None:
    assert histogram(DivergencePositions(positions=positions)) is None
