"""Tests that neither break nor need anything."""

import pytest


@pytest.mark.parametrize("number", range(12))
def test_arithmetic(number: int) -> None:
    assert number + number == 2 * number
