"""A test relies on a random number."""

import random


def test_chance() -> None:
    assert random.random() < 0.6
