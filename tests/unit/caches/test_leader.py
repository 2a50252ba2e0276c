# SPDX-License-Identifier: Apache-2.0
"""One process does the work, and all have its result."""

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_doctor.caches import leader
from ci_doctor.caches.leader import Agreed, WorkResult, bounded, forget, once
from ci_doctor.store.objects import StoreError, StoreFailure
from ci_doctor.store.transfer import Deadline


def do(directory: Path, content: str = "1", *, holds_s: float = 60, current: bool = True) -> Agreed:
    result = WorkResult(content=content.encode(), holds_s=holds_s)
    return once(directory, "key", 60, lambda: result, lambda _: current)


def test_a_result_holds_for_those_who_come_later(tmp_path: Path) -> None:
    first = do(tmp_path)
    second = do(tmp_path, "2")

    assert (first.content, first.is_shared) == (b"1", False)
    assert (second.content, second.is_shared) == (b"1", True)


def of_another_boot(folder: Path) -> None:
    path = folder / "key.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "another"}))


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(of_another_boot, id="of before a restart"),
        pytest.param(lambda folder: (folder / "key.json").write_text("{"), id="damaged"),
        pytest.param(forget, id="forgotten"),
    ],
)
def test_a_result_that_holds_no_more_is_made_again(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    do(tmp_path)
    spoil(tmp_path)

    assert do(tmp_path, "2").content == b"2"


def test_a_result_that_has_expired_or_that_its_reader_finds_outdated_is_made_again(
    tmp_path: Path,
) -> None:
    do(tmp_path, holds_s=-1)

    assert do(tmp_path, "2").content == b"2"
    assert do(tmp_path, "3", current=False).content == b"3"


def test_what_the_work_raises_leaves_the_lock_free(tmp_path: Path) -> None:
    def fail() -> WorkResult:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        once(tmp_path, "key", 60, fail, lambda _: True)

    assert do(tmp_path).is_shared is False


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "key.lock").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreError, match="cannot lock"):
        do(tmp_path)

    assert not (tmp_path / "elsewhere").exists()


def test_who_waits_too_long_is_told_so(tmp_path: Path) -> None:
    def nested() -> WorkResult:
        once(tmp_path, "key", 0.01, lambda: WorkResult(content=b"2", holds_s=1), lambda _: True)
        return WorkResult(content=b"1", holds_s=1)

    with pytest.raises(StoreError, match="another process restores the same caches"):
        once(tmp_path, "key", 60, nested, lambda _: True)


def test_a_result_that_cannot_be_kept_is_the_callers_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "key.json").mkdir()

    assert do(tmp_path) == do(tmp_path) == Agreed(content=b"1", is_shared=False)


def test_a_result_that_cannot_be_forgotten_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "key.json").mkdir()

    forget(tmp_path)

    assert do(tmp_path).content == b"1"


def test_what_the_work_returns_is_returned() -> None:
    assert bounded(lambda: 3, 60, "work") == 3


def test_what_the_work_raises_is_raised() -> None:
    def fail() -> None:
        raise StoreError(StoreFailure.FULL, "the disk is full")

    with pytest.raises(StoreError, match="the disk is full"):
        bounded(fail, 60, "work")


def test_work_that_hangs_tells_of_itself_and_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "_TELLS_S", 0.01)
    told: list[str] = []
    reader, writer = os.pipe()
    try:
        with pytest.raises(StoreError, match="reading the store took longer than") as raised:
            bounded(lambda: os.read(reader, 1), 0.1, "reading the store", tell=told.append)
    finally:
        os.write(writer, b"x")

    assert raised.value.reason is StoreFailure.TIMEOUT
    assert told[0].startswith("reading the store: 0 of at most 0 s")


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
