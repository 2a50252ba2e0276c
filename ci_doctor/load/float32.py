# SPDX-License-Identifier: Apache-2.0
"""Pure. Numbers as the float32 that a server computed, and the distance between two of them."""

import math
import struct
from array import array
from collections.abc import Collection

_FLOAT = struct.Struct("<f")
_BITS = struct.Struct("<i")


def nearest(values: Collection[float]) -> list[float]:
    """Each number as the double of its nearest float32, ties to even.

    What is beyond float32's range stays as it is. Raises TypeError if one is no number, and
    OverflowError for an integer beyond all doubles.
    """
    # Many at once, by array: this is the part of a large answer that costs time.
    rounded = array("f", values).tolist()
    if all(map(math.isfinite, rounded)):
        return rounded
    result = []
    for near, exact in zip(rounded, values, strict=True):
        if math.isfinite(near):
            result.append(near)
        else:
            result.append(float(exact))
    return result


def ulp_distance(a: float, b: float) -> int:
    """How many float32 steps lie between two numbers: 0 for the same one, 1 for neighbours.

    0.0 and -0.0 are the same. The bits of a float, read as sign and magnitude, are integers in the
    order of the numbers: B. Dawson, "Comparing Floating Point Numbers, 2012 Edition"
    (https://randomascii.wordpress.com/2012/02/25/). What is beyond the range counts as infinity,
    which follows the largest float32. Raises ValueError for NaN, which has no place in that order.
    """
    if math.isnan(a) or math.isnan(b):
        raise ValueError("NaN is no step away from anything")
    return abs(_place(a) - _place(b))


def _place(value: float) -> int:
    # By array first: struct refuses what is beyond the range, array makes infinity of it.
    near = array("f", (value,))[0]
    packed = _FLOAT.pack(near)
    bits = int(_BITS.unpack(packed)[0])
    if bits >= 0:
        return bits
    return -(bits & 0x7FFFFFFF)
