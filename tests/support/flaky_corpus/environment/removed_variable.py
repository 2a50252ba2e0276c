"""A test removes a variable of the environment."""

import os

os.environ["SHOP_REGION"] = "north"


def test_without_region() -> None:
    del os.environ["SHOP_REGION"]
    assert "SHOP_REGION" not in os.environ


def test_region() -> None:
    assert os.environ["SHOP_REGION"] == "north"
