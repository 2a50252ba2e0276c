# SPDX-License-Identifier: Apache-2.0
import re
from pathlib import Path

import pytest

from ci_doctor.commands.progress import ServiceSource
from ci_doctor.services.instance import EventKind, ServiceEvent
from tests.unit.commands.events import DIED, LOST, READY, STARTED, live, taken


def source(*events: ServiceEvent, names: tuple[str, ...] = ("kv", "vllm")) -> ServiceSource:
    made = ServiceSource(names)
    taken(made, *events)
    return made


def started(log: Path) -> ServiceEvent:
    return ServiceEvent(kind=EventKind.STARTED, service="vllm", at=10.0, pid=4242, log=str(log))


def test_an_event_is_a_line_for_a_log_with_the_seconds_since_the_beginning() -> None:
    ((kind, line),) = taken(source(), DIED)
    assert kind == "log"
    assert re.fullmatch(r" *-?\d+\.\d s  vllm died after 4\.0 s by SIGSEGV", line)


def test_a_line_shows_state_seconds_pid_and_the_last_line_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 9000 + b"\nloading \xff\n\n")
    tail = "loading \ufffd"
    assert live(source(started(log))) == [
        "kv    waiting",
        f"vllm  starting       2.5 s  pid 4242     {tail}",
    ]
    ready = source(started(log), READY)
    assert live(ready)[1] == f"vllm  ready          3.0 s  pid 4242     {tail}"
    died = source(started(log), READY, DIED)
    assert live(died)[1] == "vllm  died           4.0 s  pid 4242     by SIGSEGV"


def test_a_lost_process_is_shown_and_the_service_keeps_its_state() -> None:
    line = live(source(STARTED, READY, LOST))[1]
    assert line.split() == [
        "vllm",
        "ready",
        "3.0",
        "s",
        "pid",
        "4242",
        "lost",
        "worker",
        "(pid",
        "7)",
        "by",
        "SIGKILL",
    ]


def test_a_log_that_cannot_be_read_shows_nothing(tmp_path: Path) -> None:
    line = live(source(started(tmp_path / "no-such-log")))[1]
    assert line == "vllm  starting       2.5 s  pid 4242"


@pytest.mark.parametrize(
    ("content", "tail"),
    [
        pytest.param(b"50%\r60%\r70%", "70%", id="progress-bar"),
        pytest.param(b"k" * 5000 + b" the rest", "the rest", id="half-a-word-may-be-half-a-secret"),
        pytest.param(b"k" * 5000, "", id="one-word"),
    ],
)
def test_the_end_of_an_unfinished_line(content: bytes, tail: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(content)
    line = live(source(started(log)))[1]
    assert line == f"vllm  starting       2.5 s  pid 4242     {tail}".rstrip()


def test_a_long_name_leaves_two_thirds_of_a_line() -> None:
    (line,) = live(source(names=("k" * 60,)), columns=39)
    assert line == "k" * 12 + "…  waiting"


def test_an_event_of_no_service_changes_no_line() -> None:
    killed = ServiceEvent(kind=EventKind.KILLED, service=None, at=1.0, pid=7, name="worker")
    made = source(STARTED)
    before = live(made)
    taken(made, killed)
    assert live(made) == before
