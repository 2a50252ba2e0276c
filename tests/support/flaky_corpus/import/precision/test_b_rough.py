"""This file sets the precision of decimals when it is imported."""

import decimal

decimal.getcontext().prec = 3


def test_rough() -> None:
    assert str(decimal.Decimal(1) / 3) == "0.333"
