"""A test compares a set that was joined to a text."""


def test_joined() -> None:
    assert ",".join({"apple", "pear"}) in {"apple,pear"}
