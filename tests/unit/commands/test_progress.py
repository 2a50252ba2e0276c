# SPDX-License-Identifier: Apache-2.0
import asyncio
import re
from pathlib import Path

import pytest
from msgspec import structs

from ci_doctor.commands.progress import (
    ServiceOutput,
    event_line,
    restart_line,
    service_lines,
    show_experiment,
    show_wait,
)
from ci_doctor.commands.teller import Teller
from ci_doctor.correctness.attempt import ExperimentProgress
from ci_doctor.model.facts.restart_check import Phase
from ci_doctor.restart.answers import RestartProgress
from ci_doctor.services.instance import EventKind, ServiceEvent
from ci_doctor.services.wait import WaitProgress
from ci_doctor.system.secrets.redaction import Redactor

STARTED = ServiceEvent(
    kind=EventKind.STARTED, service="vllm", at=10.0, pid=4242, log="logs/vllm-1.log"
)
READY = ServiceEvent(
    kind=EventKind.READY,
    service="vllm",
    at=13.0,
    pid=4242,
    duration_s=3.0,
    url="http://127.0.0.1:81",
)
DIED = ServiceEvent(
    kind=EventKind.DIED, service="vllm", at=14.0, pid=4242, duration_s=4.0, signal="SIGSEGV"
)
STOPPED = ServiceEvent(
    kind=EventKind.STOPPED, service="kv", at=15.0, pid=4241, duration_s=0.2, exit_code=0
)
LOST = ServiceEvent(
    kind=EventKind.DESCENDANT_DIED, service="vllm", at=11.0, pid=7, name="worker", signal="SIGKILL"
)


class Told(Teller):
    """What is said, and what is a status."""

    def __init__(self) -> None:
        super().__init__(Redactor([]))
        self.lines: list[tuple[str, str]] = []

    def __call__(self, status: str) -> None:
        self.lines.append(("status", status))

    def say(self, *lines: str) -> None:
        self.lines += [("kept", line) for line in lines]


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


NAMES = ("kv", "vllm")


def followed(capsys: pytest.CaptureFixture[str], log: Path, *pieces: bytes) -> str:
    """What is shown of a log in which `pieces` are written one after the other."""

    async def follow() -> None:
        with (
            Teller(Redactor(["hunter22"])) as tell,
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
    with ServiceOutput(NAMES, Teller(Redactor([]))) as output:  # no loop: following would fail
        output(ServiceEvent(kind=EventKind.READY, service="kv", at=0.0, pid=1, log="log"))
    assert capsys.readouterr().err == ""


def test_an_event_is_a_line_with_the_seconds_since_the_beginning() -> None:
    told = Told()
    service_lines(told)(DIED)
    ((_, line),) = told.lines
    assert re.fullmatch(r" *-?\d+\.\d s  vllm died after 4\.0 s by SIGSEGV", line)


def test_notes_and_services_stay_and_of_the_answers_the_last() -> None:
    told = Told()
    for progress in (
        ExperimentProgress(note="24 min left"),
        ExperimentProgress(start="A1", event=READY),
        ExperimentProgress(start="A1", answers=1, requests=2),
        ExperimentProgress(start="A1", answers=2, requests=2),
    ):
        show_experiment(told, progress)
    assert told.lines == [
        ("kept", "24 min left"),
        ("kept", "A1  vllm ready after 3.0 s at http://127.0.0.1:81"),
        ("status", "A1  1/2 answers"),
        ("kept", "A1  2/2 answers"),
    ]


def test_of_requests_that_failed_no_answers_are_claimed() -> None:
    told = Told()
    show_experiment(told, ExperimentProgress(start="A1", answers=2, failed=1, requests=16))
    show_experiment(told, ExperimentProgress(start="A1", answers=2, failed=14, requests=16))
    assert told.lines == [
        ("status", "A1  2/16 answers, 1 failed"),
        ("kept", "A1  2/16 answers, 14 failed"),
    ]


def test_everything_stands_behind_its_phase() -> None:
    sent = RestartProgress(phase=Phase.KILL, text="SIGKILL to vllm")
    happened = RestartProgress(phase=Phase.RECOVERY, event=READY)
    assert restart_line(sent) == "kill      SIGKILL to vllm"
    assert restart_line(happened) == "recovery  vllm ready after 3.0 s at http://127.0.0.1:81"


def test_a_longer_wait_shows_why_it_is_not_over() -> None:
    told = Told()
    for waited_s, answer in ((1.9, "refused"), (2.0, ""), (7.1, "connection refused")):
        show_wait(told, WaitProgress(name="pid 7", waited_s=waited_s, answer=answer))
    assert told.lines == [
        ("status", "waiting for pid 7, 2.0 s"),
        ("status", "waiting for pid 7, 7.1 s: connection refused"),
    ]
