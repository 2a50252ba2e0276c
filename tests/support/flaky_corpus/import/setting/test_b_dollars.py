"""This file changes a setting when it is imported."""

from shop import settings

settings.CURRENCY = "USD"


def test_dollars() -> None:
    assert settings.CURRENCY == "USD"
