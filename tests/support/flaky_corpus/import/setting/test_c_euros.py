"""And this one relies on the setting."""

from shop import settings


def test_euros() -> None:
    assert settings.CURRENCY == "EUR"
