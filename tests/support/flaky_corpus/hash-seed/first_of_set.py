"""A test relies on the order of a set."""


def test_first() -> None:
    names = {"apple", "pear"}
    assert next(iter(names)) == "apple"
