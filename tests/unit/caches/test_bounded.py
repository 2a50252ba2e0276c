"""Work that may hang."""

import os

import pytest

from ci_doctor.caches.bounded import bounded
from ci_doctor.store.errors import StoreError, StoreFailure


def test_what_the_work_returns_is_returned() -> None:
    assert bounded(lambda: 3, 60, "work") == 3


def test_what_the_work_raises_is_raised() -> None:
    def fail() -> None:
        raise StoreError(StoreFailure.FULL, "the disk is full")

    with pytest.raises(StoreError, match="the disk is full"):
        bounded(fail, 60, "work")


def test_work_that_hangs_is_a_timeout() -> None:
    reader, writer = os.pipe()
    try:
        with pytest.raises(StoreError, match="reading the store took longer than") as raised:
            bounded(lambda: os.read(reader, 1), 0.01, "reading the store")
    finally:
        os.write(writer, b"x")

    assert raised.value.reason is StoreFailure.TIMEOUT
