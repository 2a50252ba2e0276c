"""A test that always fails."""


def test_broken() -> None:
    assert sum(range(5)) == 11
