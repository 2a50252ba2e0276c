# SPDX-License-Identifier: Apache-2.0
import asyncio
import re
from pathlib import Path

import pytest
from msgspec import structs

from ci_doctor.commands.progress import (
    ExperimentSource,
    RestartSource,
    ServiceOutput,
    ServiceSource,
    WaitSource,
    event_line,
)
from ci_doctor.commands.teller import Teller
from ci_doctor.correctness.attempt import ExperimentProgress
from ci_doctor.model.facts.restart_check import Phase
from ci_doctor.restart.answers import RestartProgress
from ci_doctor.services.instance import EventKind, ServiceEvent
from ci_doctor.services.wait import WaitProgress
from ci_doctor.system.secrets.redaction import Redactor
from tests.unit.commands.events import DIED, LOST, READY, STARTED, STOPPED, live, taken


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (STARTED, "vllm started (pid 4242, logs/vllm-1.log)"),
        (READY, "vllm ready after 3.0 s at http://127.0.0.1:81"),
        (DIED, "vllm died after 4.0 s by SIGSEGV"),
        (STOPPED, "kv stopped after 0.2 s with exit code 0"),
        (LOST, "vllm lost worker (pid 7) by SIGKILL"),
        (
            structs.replace(LOST, signal=None),
            "vllm lost worker (pid 7), and how it ended is not known",
        ),
        (
            ServiceEvent(
                kind=EventKind.KILLED, service=None, at=1.0, pid=7, name="worker", signal="SIGKILL"
            ),
            "killed worker (pid 7) by SIGKILL",
        ),
    ],
)
def test_each_event_has_its_words(event: ServiceEvent, line: str) -> None:
    assert event_line(event) == line


def test_every_kind_has_a_verb() -> None:
    for kind in EventKind:
        assert event_line(ServiceEvent(kind=kind, service="vllm", at=1.0, pid=1)) != "vllm"


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


NAMES = ("kv", "vllm")


def followed(capsys: pytest.CaptureFixture[str], log: Path, *pieces: bytes) -> str:
    """What is shown of a log in which `pieces` are written one after the other."""

    async def follow() -> None:
        with (
            Teller(ServiceSource(NAMES), Redactor(["hunter22"])) as tell,
            ServiceOutput(NAMES, tell) as output,
        ):
            output(ServiceEvent(kind=EventKind.STARTED, service="kv", at=0.0, pid=1, log=str(log)))
            for piece in pieces:
                with log.open("ab") as file:
                    file.write(piece)
                await asyncio.sleep(0)

    asyncio.run(follow())
    return capsys.readouterr().err


def test_every_line_stands_behind_its_service_without_secrets_and_escapes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = followed(capsys, tmp_path / "log", b"the key is hunter22\n\x1b[2Jwa", b"rm\nlast")
    assert text == "kv   | the key is [redacted]\nkv   | warm\nkv   | last\n\n"


def test_a_secret_in_the_middle_of_which_an_escape_stands_is_hidden_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "ter22" not in followed(capsys, tmp_path / "log", b"hun\x1b[1mter22\n")


def test_what_came_too_fast_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = followed(capsys, tmp_path / "log", b"line\n" * 4_000_000)
    assert "MB came too fast to be shown; they are in" in text


def test_other_events_are_nothing_to_follow(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tell = Teller(ServiceSource(NAMES), Redactor([]))
    with ServiceOutput(NAMES, tell) as output:  # no loop: following would fail
        output(ServiceEvent(kind=EventKind.READY, service="kv", at=0.0, pid=1, log="log"))
    assert capsys.readouterr().err == ""


def test_notes_and_services_stay() -> None:
    lines = taken(
        ExperimentSource(),
        ExperimentProgress(note="24 min left"),
        ExperimentProgress(start="A1", event=READY),
    )
    assert lines == [
        ("kept", "24 min left"),
        ("kept", "A1  vllm ready after 3.0 s at http://127.0.0.1:81"),
    ]


def test_answers_are_a_status_and_the_last_goes_into_every_log() -> None:
    source = ExperimentSource()
    answers = [ExperimentProgress(start="A1", answers=number, requests=2) for number in (1, 2)]
    assert taken(source, *answers) == [("status", "A1  1/2 answers"), ("log", "A1  2/2 answers")]
    assert live(source) == ["A1  2/2 answers"]


def test_the_answers_are_live_until_something_else_happens() -> None:
    source = ExperimentSource()
    taken(
        source,
        ExperimentProgress(start="A1", answers=1, requests=2),
        ExperimentProgress(start="A1", event=READY),
    )
    assert live(source) == []


def test_everything_stays_behind_its_phase() -> None:
    source = RestartSource()
    sent = RestartProgress(phase=Phase.KILL, text="SIGKILL to vllm")
    happened = RestartProgress(phase=Phase.RECOVERY, event=READY)
    assert taken(source, sent, happened) == [
        ("kept", "kill      SIGKILL to vllm"),
        ("kept", "recovery  vllm ready after 3.0 s at http://127.0.0.1:81"),
    ]
    assert live(source) == []


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
