"""Prices, with a cache."""

from functools import lru_cache
from pathlib import Path

RATE = 1


@lru_cache
def price(name: str) -> int:
    """The price in the current currency."""
    return RATE * {"apple": 3, "pear": 5}[name]


def listed(path: str = "shop/prices.csv") -> dict[str, int]:
    """The prices of a file."""
    pairs = (line.split(",") for line in Path(path).read_text().splitlines())
    return {name: int(value) for name, value in pairs}
