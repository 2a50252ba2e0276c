"""A test writes to a file that belongs to the program."""

from pathlib import Path

from shop import prices


def test_update() -> None:
    Path("shop/prices.csv").write_text("apple,4\n")
    assert prices.listed() == {"apple": 4}


def test_list() -> None:
    assert prices.listed() == {"apple": 3, "pear": 5}
