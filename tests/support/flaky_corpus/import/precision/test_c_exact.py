"""And this one relies on the usual precision."""

import decimal


def test_exact() -> None:
    assert len(str(decimal.Decimal(1) / 3)) > 20
