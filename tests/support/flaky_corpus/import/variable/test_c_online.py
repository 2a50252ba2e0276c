"""And this one relies on its absence."""

import os


def test_online() -> None:
    assert "SHOP_OFFLINE" not in os.environ
