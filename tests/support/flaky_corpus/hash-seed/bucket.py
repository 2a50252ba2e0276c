"""A test relies on the hash of a string."""


def test_bucket() -> None:
    assert hash("apple") % 2 == 0
