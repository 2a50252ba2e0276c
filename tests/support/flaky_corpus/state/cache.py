"""A test fills a cache while a rate is patched, and puts only the rate back."""

import pytest
from shop import prices


def test_names() -> None:
    assert prices.listed()["pear"] == 5


def test_other_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "RATE", 2)
    assert prices.price("apple") == 6


def test_price() -> None:
    assert prices.price("apple") == 3
