# SPDX-License-Identifier: Apache-2.0
"""What is told of services while they run, on a terminal (a real one, of 60 columns) and elsewhere."""

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_doctor.commands.live import event_line
from ci_doctor.commands.live_block import LiveBlock
from ci_doctor.services.outcome import EventKind, ServiceEvent
from tests.support.cli import environment

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
COLUMNS = 60

# Started, one line of log, ready, and an end; FOLLOW LOG.
PROGRAM = """
import asyncio, sys
from pathlib import Path
from ci_doctor.commands.live import LiveLines
from ci_doctor.services.outcome import EventKind, ServiceEvent
from ci_doctor.system import clock

log = Path(sys.argv[2])

def event(kind, **fields):
    return ServiceEvent(kind=kind, service="vllm", at=clock.now(), pid=4242, log=str(log), **fields)

async def main():
    with LiveLines(("kv", "vllm"), follow=sys.argv[1] == "follow", redact=lambda text: text.replace("hunter22", "***")) as live:
        log.write_text("loading " + "weights " * 40 + "\\n")
        live(event(EventKind.STARTED))
        with log.open("a") as file:
            file.write("the key is hunter22\\n\\x1b[2Jwarm\\n")
        live.say("said")
        live(event(EventKind.READY, duration_s=3.0))
        live.freeze()
        live(event(EventKind.DIED, duration_s=4.0, exit_code=1))

asyncio.run(main())
"""


def on_terminal(tmp_path: Path, *words: str, env: Mapping[str, str | None] | None = None) -> str:
    """What the program shows on a terminal of 60 columns."""
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words, str(tmp_path / "log")],
        env=environment({"TERM": "xterm", "CI": None, "NO_COLOR": None, **(env or {})}),
        stderr=follower,
        stdin=subprocess.DEVNULL,
    )
    os.close(follower)
    shown = b""
    try:
        while piece := os.read(leader, 4096):
            shown += piece
    except OSError:  # EIO: the other end is closed
        pass
    os.close(leader)
    assert program.wait() == 0, shown.decode()
    return shown.decode()


def in_a_pipe(tmp_path: Path, *words: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words, str(tmp_path / "log")],
        env=environment(), capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return ran.stderr


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (STARTED, "vllm started (pid 4242, logs/vllm-1.log)"),
        (READY, "vllm ready after 3.0 s at http://127.0.0.1:81"),
        (DIED, "vllm died after 4.0 s by SIGSEGV"),
        (STOPPED, "kv stopped after 0.2 s with exit code 0"),
        (
            ServiceEvent(
                kind=EventKind.DESCENDANT_DIED,
                service="vllm",
                at=1.0,
                pid=7,
                name="worker",
                signal="SIGKILL",
            ),
            "vllm lost worker (pid 7) by SIGKILL",
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


# --- the lines of the block ---


def block(
    *events: ServiceEvent,
    width: int = 79,
    colour: bool = False,
    names: tuple[str, ...] = ("kv", "vllm"),
) -> list[str]:
    made = LiveBlock(names, colour=colour, redact=lambda text: text.replace("hunter22", "***"))
    for event in events:
        made.take(event)
    return made.lines(12.5, width)


def test_a_line_tells_state_seconds_pid_and_what_was_seen_last(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 9000 + b"\nloading hunter22 \xff\n\n")
    started = ServiceEvent(kind=EventKind.STARTED, service="vllm", at=10.0, pid=4242, log=str(log))
    assert block(started) == [
        "kv    waiting",
        "vllm  starting     2.5 s  pid 4242     loading *** \ufffd",
    ]
    assert block(started, READY)[1] == "vllm  ready        3.0 s  pid 4242     loading *** \ufffd"
    assert block(started, READY, DIED)[1] == "vllm  died         4.0 s  pid 4242     by SIGSEGV"


def test_a_lost_process_is_told_and_the_service_stays_what_it_is() -> None:
    lost = ServiceEvent(
        kind=EventKind.DESCENDANT_DIED,
        service="vllm",
        at=11.0,
        pid=7,
        name="worker",
        signal="SIGKILL",
    )
    assert block(STARTED, READY, lost)[1].split() == [
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


@pytest.mark.parametrize("width", [4, 8, 12, 20, 39, 79])
@pytest.mark.parametrize("colour", [False, True])
def test_no_line_is_wider_than_the_terminal(width: int, colour: bool, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("在垫子上" * 100 + "\n")
    names = ("k" * 30, "vllm")
    started = ServiceEvent(
        kind=EventKind.STARTED, service="k" * 30, at=10.0, pid=4242, log=str(log)
    )
    for line in block(started, width=width, colour=colour, names=names):
        plain = re.sub(r"\x1b\[\d*m", "", line)
        wide = sum(2 if ord(character) > 0x3000 else 1 for character in plain)
        assert wide <= width


# --- where they are shown ---


@pytest.mark.integration
def test_a_terminal_gets_one_line_per_service_redrawn_in_place(tmp_path: Path) -> None:
    shown = on_terminal(tmp_path, "quiet")
    frames = shown.split("\x1b[2F\x1b[J")
    assert len(frames) >= 4
    assert "said\r\n" in frames[-3] + frames[-2]
    last = frames[-1]
    assert re.search(r"kv    \x1b\[2mwaiting", last)
    assert re.search(r"vllm  \x1b\[32mready\x1b\[0m", last)
    assert last.endswith("vllm died after 4.0 s with exit code 1\r\n\r\n"), (
        "after freezing, lines stay"
    )
    assert "hunter22" not in shown
    plain = re.sub(r"\x1b\[\d*[mFJ]", "", shown)
    assert max(map(len, plain.replace("\r\n", "\n").split("\n"))) < COLUMNS


@pytest.mark.integration
def test_no_colour_where_none_is_wanted(tmp_path: Path) -> None:
    shown = on_terminal(tmp_path, "follow", env={"NO_COLOR": "1"})
    assert not re.search(r"\x1b\[\d*m", shown)


@pytest.mark.integration
@pytest.mark.parametrize("env", [{"CI": "true"}, {"TERM": "dumb"}])
def test_a_terminal_that_nobody_sits_at_gets_plain_lines(
    tmp_path: Path, env: Mapping[str, str]
) -> None:
    shown = on_terminal(tmp_path, "quiet", env=env)
    assert "\x1b" not in shown
    assert re.search(r"\d\.\d s  vllm ready after 3\.0 s\r\n", shown)


@pytest.mark.integration
def test_a_pipe_gets_one_plain_line_per_event(tmp_path: Path) -> None:
    shown = in_a_pipe(tmp_path, "quiet")
    assert "\x1b" not in shown
    lines = [re.sub(r"^ *\d+\.\d s  ", "", line) for line in shown.splitlines()]
    assert lines == [
        f"vllm started (pid 4242, {tmp_path / 'log'})",
        "said",
        "vllm ready after 3.0 s",
        "vllm died after 4.0 s with exit code 1",
        "",
    ]


@pytest.mark.integration
def test_what_a_service_writes_is_followed_with_its_name_before_it(tmp_path: Path) -> None:
    shown = in_a_pipe(tmp_path, "follow")
    assert "vllm | the key is ***\nvllm | warm\n" in shown
    assert "\x1b" not in shown


@pytest.mark.integration
def test_on_a_terminal_the_name_is_coloured_and_stands_above_the_live_lines(tmp_path: Path) -> None:
    shown = on_terminal(tmp_path, "follow")
    assert "\x1b[33mvllm | \x1b[0mwarm\r\n" in shown
