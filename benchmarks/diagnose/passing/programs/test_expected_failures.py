# SPDX-License-Identifier: Apache-2.0
"""Passing tests whose subjects fail: expected exceptions, logged tracebacks, expected failures."""

import logging
import subprocess
import sys
import traceback
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

log = logging.getLogger("subject")


class OutOfMemoryError(RuntimeError):
    """Stands for the error of a GPU library."""


def allocate(gigabytes):
    if gigabytes > 80:
        raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {gigabytes}.00 GiB.")


def test_error_of_memory_is_raised_and_logged():
    try:
        allocate(81)
    except OutOfMemoryError:
        log.exception("allocation failed")
    else:
        raise AssertionError("nothing was raised")


def test_traceback_is_printed_for_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        (tmp_path / "model.safetensors").read_bytes()
    traceback.print_exception(caught.value)


def test_failed_command_is_reported():
    code = "raise SystemExit('fatal: not a git repository')"
    ran = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    print(ran.stderr)
    print(f"Error: Process completed with exit code {ran.returncode}.")
    assert ran.returncode == 1


def test_segfault_of_a_child_is_noticed():
    code = "import faulthandler; faulthandler.enable(); faulthandler._sigsegv()"
    ran = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    print(ran.stderr)
    assert ran.returncode == -11


def test_killed_child_is_noticed():
    code = "import os; os.kill(os.getpid(), 9)"
    ran = subprocess.run([sys.executable, "-c", code], check=False)
    log.error("worker died with exit code %d", ran.returncode)
    assert ran.returncode == -9


@pytest.mark.xfail(reason="the division is not written yet", raises=ZeroDivisionError)
def test_division_by_zero_is_infinite():
    log.error("about to divide by zero")
    assert 1 / 0


@pytest.mark.xfail(reason="AssertionError: known bug", strict=True)
def test_known_bug():
    assert [1, 2, 3] == [1, 2, 4]


@pytest.mark.skipif(True, reason="ImportError: libcuda.so.1: cannot open shared object file")
def test_on_a_gpu():
    raise AssertionError


@pytest.mark.parametrize("message", ["Connection refused", "No space left on device", "Killed"])
def test_error_message_is_handed_on(message):
    with pytest.raises(OSError, match=message):
        raise OSError(message)


def test_deprecated_call_warns():
    warnings.warn("error() is deprecated and will fail in 3.0", DeprecationWarning, stacklevel=1)


@given(st.integers())
def test_division_fails_only_for_zero(number):
    if number == 0:
        with pytest.raises(ZeroDivisionError):
            1 / number
    else:
        assert (1 / number) * number == pytest.approx(1)
