"""A test draws with a fixture, and expects no pair."""

import random

import pytest


@pytest.fixture
def dice() -> list[int]:
    return [random.randint(1, 6) for _ in range(3)]


def test_no_pair(dice: list[int]) -> None:
    assert len(set(dice)) == 3
