# SPDX-License-Identifier: Apache-2.0
"""Tests that fail at first and pass when they are run again; the attempts are counted in files."""

from pathlib import Path

import pytest


def attempt(name):
    path = Path(f"attempts-{name}")
    number = len(path.read_text()) + 1 if path.exists() else 1
    path.write_text("x" * number)
    return number


def test_server_is_ready_at_the_third_attempt():
    number = attempt("server")
    if number < 3:
        raise ConnectionRefusedError(f"[Errno 111] Connection refused (attempt {number})")


def test_outputs_agree_at_the_second_attempt():
    number = attempt("outputs")
    last = 3 if number > 1 else 4
    output = [1, 2, last]
    assert output == [1, 2, 3], "outputs differ"


@pytest.mark.parametrize("size", [1, 80])
def test_memory_suffices_at_the_second_attempt(size):
    if attempt(f"memory-{size}") < 2:
        raise RuntimeError(f"CUDA out of memory. Tried to allocate {size}.00 GiB.")


def test_stable():
    print("0 failed")
