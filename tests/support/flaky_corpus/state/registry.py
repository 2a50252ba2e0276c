"""A test leaves an entry in a list of a class."""

from shop.orders import Order


def test_order() -> None:
    assert Order("apple").name == "apple"


def test_no_order_yet() -> None:
    assert Order.known == []
