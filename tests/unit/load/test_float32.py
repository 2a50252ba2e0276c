# SPDX-License-Identifier: Apache-2.0
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.load.float32 import nearest, ulp_distance

LARGEST = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
SMALLEST = 2.0**-149


def text(number: float) -> str:
    return struct.pack("<d", number).hex()


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(9, 17))
def test_a_float32_is_found_again_however_many_digits_it_was_printed_with(
    number: float, digits: int
) -> None:
    assert [text(each) for each in nearest([float(f"{number:.{digits}g}")])] == [text(number)]


def test_what_is_beyond_the_range_stays_a_double_and_its_neighbours_are_rounded() -> None:
    assert nearest([1e300, 0.1, -1e39, math.inf]) == [1e300, 0.10000000149011612, -1e39, math.inf]
    assert nearest([]) == []


@pytest.mark.parametrize(
    ("a", "b", "steps"),
    [
        (1.0, 1.0, 0),
        (0.0, -0.0, 0),
        (1.0, 1.0 + 2**-23, 1),
        (1.0, 1.0 - 2**-24, 1),
        (1.0, 1.0 + 2**-40, 0),
        (-0.1, -0.10000001, 1),
        (-SMALLEST, SMALLEST, 2),
        (1.0, 2.0, 2**23),
        (LARGEST, math.inf, 1),
        (LARGEST, 1e300, 1),
        (-math.inf, math.inf, 2 * 0x7F800000),
    ],
)
def test_steps_are_counted_over_zero_and_to_infinity(a: float, b: float, steps: int) -> None:
    assert ulp_distance(a, b) == ulp_distance(b, a) == steps


@given(*[st.floats(width=32, allow_nan=False)] * 3)
def test_steps_add_up_along_the_line(a: float, b: float, c: float) -> None:
    low, middle, high = sorted((a, b, c))
    assert ulp_distance(low, high) == ulp_distance(low, middle) + ulp_distance(middle, high)


def test_nan_is_nowhere() -> None:
    with pytest.raises(ValueError, match="NaN"):
        ulp_distance(math.nan, 0.0)
