# SPDX-License-Identifier: Apache-2.0
"""Pure. Looks for literals with the standard library alone, if no faster engine is installed.

Many literals share a substring: `rror` stands in hundreds of them. A few substrings that cover all
literals are looked for; only where one stands are its literals compared.
"""

from collections.abc import Iterator, Sequence

from ci_doctor.diagnosis.scanning.engine import Engine

# Of the substrings that are considered: shorter ones stand everywhere, longer ones are shared less.
_LENGTHS = (4, 5, 6)

# The literals with one substring: (index, the literal, offset of the substring in it).
_Sharers = list[tuple[int, bytes, int]]


def substring_engine(literals: Sequence[bytes]) -> Engine:
    """An engine that looks for one substring of the cover after the other."""
    sharers_of = _sharers(literals, cover(literals))

    def engine(block: bytes) -> list[tuple[int, int]]:
        places = []
        for substring, sharers in sharers_of.items():
            for position in _positions(block, substring):
                for index, literal, offset in sharers:
                    start = position - offset
                    if start >= 0 and block.startswith(literal, start):
                        places.append((index, start))
        return places

    return engine


def cover(literals: Sequence[bytes]) -> list[bytes]:
    """A few substrings of which every literal holds at least one (greedy set cover).

    V. Chvatal, "A greedy heuristic for the set-covering problem", Math. Oper. Res. 4(3), 1979.
    """
    holders: dict[bytes, set[int]] = {}
    for index, literal in enumerate(literals):
        for substring in _substrings(literal):
            holders.setdefault(substring, set()).add(index)
    chosen = []
    uncovered = set(range(len(literals)))
    while uncovered:
        # The longest of those that cover as many is the rarest; the bytes make the choice firm.
        best = max(holders, key=lambda each: (len(holders[each] & uncovered), len(each), each))
        chosen.append(best)
        uncovered -= holders.pop(best)
    return chosen


def _substrings(literal: bytes) -> Iterator[bytes]:
    yield literal
    for length in _LENGTHS:
        for start in range(len(literal) - length + 1):
            yield literal[start : start + length]


def _sharers(literals: Sequence[bytes], substrings: Sequence[bytes]) -> dict[bytes, _Sharers]:
    sharers_of: dict[bytes, _Sharers] = {substring: [] for substring in substrings}
    for index, literal in enumerate(literals):
        # Of several substrings in it one is enough.
        substring = next(each for each in substrings if each in literal)
        sharers_of[substring].append((index, literal, literal.find(substring)))
    return sharers_of


def _positions(block: bytes, substring: bytes) -> Iterator[int]:
    position = block.find(substring)
    while position >= 0:
        yield position
        position = block.find(substring, position + 1)
