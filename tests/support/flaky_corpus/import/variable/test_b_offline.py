"""This file sets a variable of the environment when it is imported."""

import os

os.environ["SHOP_OFFLINE"] = "1"


def test_offline() -> None:
    assert os.environ["SHOP_OFFLINE"] == "1"
