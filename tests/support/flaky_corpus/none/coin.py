"""A test that draws from the kernel: no condition decides it."""

import os


def test_coin() -> None:
    assert os.urandom(1)[0] < 128
