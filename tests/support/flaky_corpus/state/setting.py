"""A test switches debugging on for all that follow."""

from shop import settings


def test_debug_output() -> None:
    settings.DEBUG = True
    assert settings.DEBUG


def test_currency() -> None:
    assert settings.CURRENCY == "EUR"


def test_is_quiet() -> None:
    assert not settings.DEBUG
