# SPDX-License-Identifier: Apache-2.0
from ci_doctor.commands.progress import WaitSource
from ci_doctor.services.wait import WaitProgress
from tests.unit.commands.events import live, taken


def progress(waited_s: float, seen: str = "") -> WaitProgress:
    return WaitProgress(name="pid 7", waited_s=waited_s, answer=seen)


def test_a_short_wait_shows_nothing() -> None:
    source = WaitSource()
    assert taken(source, progress(0.0), progress(1.9, "refused")) == []
    assert live(source) == []


def test_a_longer_one_shows_why_it_is_not_over() -> None:
    source = WaitSource()
    lines = taken(source, progress(2.0), progress(7.1, "connection refused"))
    assert lines == [
        ("status", "waiting for pid 7, 2.0 s"),
        ("status", "waiting for pid 7, 7.1 s: connection refused"),
    ]
    assert live(source) == ["waiting for pid 7, 7.1 s: connection refused"]
