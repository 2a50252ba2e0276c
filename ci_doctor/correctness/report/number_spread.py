# SPDX-License-Identifier: Apache-2.0
"""How far the numbers of answers lie apart where their words and tokens are the same. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from ci_doctor.load.answer_items import AnswerParts, parts
from ci_doctor.load.canonical import encode
from ci_doctor.load.choices import ulp_distance

# Where a number stands: its place, and of an alternative also its token.
_Place = tuple[int, str | None]


class NumberSpread(Struct, frozen=True, kw_only=True):
    """The largest distances of two numbers, which need not be those of one pair.

    `nat` is absolute for vectors and scores, `ulp` counts units in the last place of float32.
    """

    nat: float = 0.0
    ulp: int = 0


def number_spread(outputs: Iterable[Mapping[str, Any]]) -> NumberSpread | None:
    """The spread of the numbers of answers to one request.

    Only answers with the same words and tokens are held beside each other; an alternative that some
    of them do not list counts among the others. None if no two of them have a number in common.
    """
    ranges: dict[bytes, dict[_Place, tuple[float, float]]] = {}
    is_compared = False
    for output in outputs:
        divided = parts(output)
        key = encode([divided.words, divided.tokens])
        is_compared |= key in ranges and bool(divided.numbers or divided.alternatives)
        of_these = ranges.setdefault(key, {})
        for place, number in _placed(divided):
            least, most = of_these.get(place, (number, number))
            of_these[place] = min(least, number), max(most, number)
    if not is_compared:
        return None
    return widest(_spread(least, most) for each in ranges.values() for least, most in each.values())


def widest(spreads: Iterable[NumberSpread]) -> NumberSpread:
    """The largest distance of all, in each unit."""
    nat = 0.0
    ulp = 0
    for spread in spreads:
        nat = max(nat, spread.nat)
        ulp = max(ulp, spread.ulp)
    return NumberSpread(nat=nat, ulp=ulp)


def _spread(least: float, most: float) -> NumberSpread:
    return NumberSpread(nat=most - least, ulp=ulp_distance(least, most))


def _placed(divided: AnswerParts) -> Iterator[tuple[_Place, float]]:
    for index, number in enumerate(divided.numbers):
        yield (index, None), number
    for index, listed in enumerate(divided.alternatives):
        for token, number in listed.items():
            yield (index, token), number
