# SPDX-License-Identifier: Apache-2.0
"""Numbers as the float32 that a server computed them in, and how far two of them are apart. Pure."""

import math
import struct
from array import array
from collections.abc import Collection

_FLOAT = struct.Struct("<f")
_BITS = struct.Struct("<i")


def nearest(values: Collection[float]) -> list[float]:
    """Each number as the double of its nearest float32, ties to even; what is beyond float32's range stays as it is.

    Many at once: this is the part of a large answer that costs time. Raises TypeError where one is no number, and
    OverflowError for an integer beyond all doubles.
    """
    rounded = array("f", values).tolist()
    if not all(map(math.isfinite, rounded)):
        return [
            near if math.isfinite(near) else float(exact)
            for near, exact in zip(rounded, values, strict=True)
        ]
    return rounded


def ulp_distance(a: float, b: float) -> int:
    """How many float32 steps lie between two numbers: 0 for the same one, 1 for neighbours; 0.0 and -0.0 are the same.

    The bits of a float, read as sign and magnitude, are integers in the order of the numbers: B. Dawson, "Comparing
    Floating Point Numbers, 2012 Edition" (https://randomascii.wordpress.com/2012/02/25/). What is beyond the range
    counts as infinity, which follows the largest float32. Raises ValueError for NaN, which is nowhere on that line.
    """
    if math.isnan(a) or math.isnan(b):
        raise ValueError("NaN is no step away from anything")
    return abs(_place(a) - _place(b))


def _place(value: float) -> int:
    near = array("f", (value,))[0]
    (bits,) = _BITS.unpack(_FLOAT.pack(near))
    return int(bits) if bits >= 0 else -(int(bits) & 0x7FFFFFFF)
