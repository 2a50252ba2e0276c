"""A test needs a variable of the environment that another one sets."""

import os


def test_log_in() -> None:
    os.environ["SHOP_USER"] = "anna"
    assert os.environ["SHOP_USER"] == "anna"


def test_user() -> None:
    assert os.environ["SHOP_USER"] == "anna"
