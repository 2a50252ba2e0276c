"""Work that may hang."""

import os
import signal
import threading
from pathlib import Path

import pytest

from ci_doctor.caches.leader import bounded
from ci_doctor.store.objects import StoreError, StoreFailure
from ci_doctor.store.transfer import Deadline


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


def test_work_that_a_signal_ends_removes_what_it_has_begun(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    deadline = Deadline(600)

    def transfer() -> None:
        begun.mkdir()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            while True:
                deadline.check("restoring")
        finally:
            begun.rmdir()

    with pytest.raises(KeyboardInterrupt):
        bounded(transfer, 600, "restoring", deadline)

    assert not begun.exists()
