"""A test needs a limit that another one sets."""

from shop import settings


def test_sets_limit() -> None:
    settings.LIMITS["orders"] = 5
    assert settings.LIMITS["orders"] == 5


def test_other() -> None:
    assert settings.CURRENCY == "EUR"


def test_limit() -> None:
    assert settings.LIMITS["orders"] == 5
