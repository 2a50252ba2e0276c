# SPDX-License-Identifier: Apache-2.0
"""Pure. What looks for many literals at once in a block of bytes."""

from collections.abc import Callable, Sequence

# From a block to (index of a literal, offset of its first byte) for every place where a literal
# stands, also where two overlap; in no fixed order.
Engine = Callable[[bytes], Sequence[tuple[int, int]]]
