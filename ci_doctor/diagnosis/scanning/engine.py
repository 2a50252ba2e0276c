# SPDX-License-Identifier: Apache-2.0
"""Looks for many literals at once in a block of bytes. Pure."""

from collections.abc import Callable, Iterable, Sequence

# From a block to (index of a literal, offset in the block of its first byte), in no fixed order.
Engine = Callable[[bytes], Iterable[tuple[int, int]]]


def fastest_engine(literals: Sequence[bytes]) -> Engine:
    """An engine for `literals`, which are not empty."""
    import ahocorasick_rs

    automaton = ahocorasick_rs.BytesAhoCorasick(literals)

    def engine(block: bytes) -> list[tuple[int, int]]:
        matches = automaton.find_matches_as_indexes(block, overlapping=True)
        return [(index, start) for index, start, _ in matches]

    return engine
