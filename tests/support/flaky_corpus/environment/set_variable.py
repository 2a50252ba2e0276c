"""A test sets a variable of the environment."""

import os


def test_fast_mode() -> None:
    os.environ["SHOP_MODE"] = "fast"
    assert os.environ["SHOP_MODE"] == "fast"


def test_default_mode() -> None:
    assert os.environ.get("SHOP_MODE", "safe") == "safe"
