# SPDX-License-Identifier: Apache-2.0
"""What is shown on a terminal (a real one, of 60 columns), and what goes into a log."""

import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ci_doctor.commands.teller import (
    Line,
    LineKind,
    Screen,
    Span,
    StepSource,
    Teller,
    late_teller,
    write,
)
from ci_doctor.system import clock
from ci_doctor.system.secrets.redaction import Redactor
from tests.support.terminal import in_a_pipe, on_terminal, shown, without_colour
from tests.unit.commands.events import live, taken


class Terminal(io.StringIO):
    """A stderr that is a terminal of no known size."""

    def isatty(self) -> bool:
        return True


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """stderr as one of 20 columns; not a fixture, because pytest replaces stderr after these."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "4")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return stream


def test_what_is_live_is_redrawn_below_what_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    screen = Screen()
    screen.put([], ["a 1", "b 1"])
    screen.put(["kept"], ["a 2", "b 2"])
    assert terminal.getvalue() == "a 1\nb 1\n\x1b[2F\x1b[Jkept\na 2\nb 2\n"


def test_nothing_is_written_if_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    screen = Screen()
    screen.put([], ["a"])
    screen.put([], ["a"])
    assert terminal.getvalue() == "a\n"


def test_a_resized_terminal_is_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = a_terminal(monkeypatch)
    screen = Screen()
    screen.put([], ["a"])
    monkeypatch.setenv("COLUMNS", "30")
    screen.measure()
    screen.put([], ["a"])
    assert (screen.columns, terminal.getvalue()) == (30, "a\n\x1b[1F\x1b[Ja\n")


def test_there_are_never_more_live_lines_than_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    Screen().put([], ["1", "2", "3", "4", "5"])
    assert terminal.getvalue() == "1\n2\n3\n"


def test_after_leaving_nothing_is_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    screen = Screen()
    screen.put([], ["a"])
    screen.leave()
    screen.put(["b"], [])
    assert terminal.getvalue() == "a\nb\n"


@pytest.mark.parametrize("columns", [5, 9, 13, 21, 40, 80])
@pytest.mark.parametrize("colour", ["", "32"])
def test_no_line_is_as_wide_as_the_terminal(
    columns: int, colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", str(columns))
    line = Screen().paint([Span("k" * 12 + "  "), Span("ready", colour), Span("  在垫子上" * 30)])
    plain = re.sub(r"\x1b\[\d*m", "", line)
    wide = sum(2 if ord(character) > 0x3000 else 1 for character in plain)
    assert wide < columns


def test_a_span_is_coloured_and_what_is_clipped_ends_in_an_ellipsis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_terminal(monkeypatch)
    line = Screen().paint([Span("vllm  "), Span("ready", "32"), Span("    and then some")])
    assert line == "vllm  \x1b[32mready\x1b[0m    and…"


@pytest.mark.parametrize("variable", [("NO_COLOR", "1"), ("CI", "true"), ("TERM", "dumb")])
def test_nothing_is_coloured_if_no_colour_is_wanted(
    variable: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_terminal(monkeypatch)
    monkeypatch.setenv(*variable)
    screen = Screen()
    assert screen.tint("ready", "32") == "ready"
    assert screen.is_live is (variable[0] == "NO_COLOR")


def test_without_a_stderr_nothing_is_live_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    Screen().put(["kept"], [])
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr("sys.stderr", closed)
    Screen().put(["kept"], [])


@pytest.mark.parametrize("reader", ["full", "gone"])
def test_a_stderr_that_takes_nothing_stops_nothing(
    reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reader == "full":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        other, descriptor = os.pipe()
        os.close(other)
    stream = os.fdopen(descriptor, "w", buffering=1)
    monkeypatch.setattr("sys.stderr", stream)
    write("progress\n")
    write("progress\n")
    with pytest.raises(OSError, match=r"No space|Broken pipe"):
        stream.close()


def test_long_steps_stay() -> None:
    source = StepSource(LineKind.KEPT)
    assert taken(source, "confirming 1/2", "confirming 2/2") == [
        ("kept", "confirming 1/2"),
        ("kept", "confirming 2/2"),
    ]
    assert live(source) == []


def test_of_short_steps_the_newest_is_live() -> None:
    source = StepSource(LineKind.STATUS)
    assert taken(source, "run 1", "run 2") == [("status", "run 1"), ("status", "run 2")]
    assert live(source, now=clock.now()) == ["run 2"]


COLUMNS = 60
NOTE = "24 min 35 s left: about 124 starts of 11.8 s fit (measured in 1 start); the schedule needs 1 to 7 more"


class Script:
    """A source whose events are its lines; the newest status is live."""

    remains = False

    def __init__(self) -> None:
        self._status = ""

    def take(self, event: Line) -> Iterator[Line]:
        """The line itself."""
        self._status = event.text if event.kind is LineKind.STATUS else ""
        yield event

    def live(self, now: float, columns: int) -> Sequence[Sequence[Span]]:
        """The status."""
        return [[Span(self._status)]] if self._status else []


class Clock:
    """The time is what the test says."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(clock, "now", made)
    return made


def teller(*secrets: str) -> Teller[Line]:
    return Teller(Script(), Redactor(secrets))


# --- in the log of a CI ---

GROUPED = """
import sys
from ci_doctor.commands.teller import LineKind
from ci_doctor.commands.teller import StepSource
from ci_doctor.commands.teller import Teller

with Teller(StepSource(LineKind.KEPT), group="ci-doctor launch: services") as tell:
    for step in sys.argv[1:]:
        if step == "client":
            tell.hand_over("running pytest")
            print("1 failed", file=sys.stderr)
        else:
            tell(step)
"""


def test_progress_stands_in_a_closed_group_which_ends_with_it() -> None:
    github = {"GITHUB_ACTIONS": "true"}

    assert in_a_pipe(GROUPED, "one", "::error::two", env=github) == (
        "::group::ci-doctor launch: services\none\n\u200b::error::two\n\n::endgroup::\n"
    )
    assert in_a_pipe(GROUPED, env=github) == ""


@pytest.mark.parametrize(
    ("variable", "log"),
    [
        (
            "BUILDKITE",
            "--- ci-doctor launch: services\nready\n--- running pytest\n1 failed\nstopped\n\n",
        ),
        (
            "GITHUB_ACTIONS",
            "::group::ci-doctor launch: services\nready\n::endgroup::\nrunning pytest\n1 failed\nstopped\n\n",
        ),
        ("CI", "ready\nrunning pytest\n1 failed\nstopped\n\n"),
    ],
)
def test_the_output_of_another_program_is_not_in_our_group(variable: str, log: str) -> None:
    assert in_a_pipe(GROUPED, "ready", "client", "stopped", env={variable: "true"}) == log


def test_a_terminal_of_an_agent_is_not_redrawn() -> None:
    log = on_terminal(GROUPED, "ready", env={"BUILDKITE": "true"})

    assert log.splitlines() == ["--- ci-doctor launch: services", "ready", ""]


# --- plain lines ---


def test_a_log_breaks_no_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with teller() as tell:
        tell.say(NOTE)
    assert capsys.readouterr().err == f"{NOTE}\n\n"


def test_nothing_shown_leaves_no_blank_line(capsys: pytest.CaptureFixture[str]) -> None:
    with teller() as tell:
        tell(Line("1/9", LineKind.STATUS))
    assert capsys.readouterr().err == ""


def test_a_status_is_shown_once_in_a_while_and_other_lines_always(
    capsys: pytest.CaptureFixture[str], time: Clock
) -> None:
    with teller() as tell:
        for second in range(14):
            time.now = 1000.0 + second
            tell(Line(f"status {second}", LineKind.STATUS))
            if second == 9:
                tell(Line("kept"))
                tell(Line("log", LineKind.LOG))
    # After 2 s, then every 5 s, and 2 s after a line which tells more.
    assert capsys.readouterr().err.split("\n") == [
        "status 2", "status 7", "kept", "log", "status 12", "", "",
    ]  # fmt: skip


def test_every_line_is_one_without_secrets_and_without_escapes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with teller("hunter22") as tell:
        tell(Line("  the key\n is hun\x1b[1mter22\x1b[2J"))
        tell.warn("curl --api-key 4242424242")
        tell.output(Span("kv | ", "31"), "a\nhunter22")
    assert capsys.readouterr().err == (
        "  the key is [redacted]\nwarning: curl --api-key [redacted]\nkv | a\nkv | [redacted]\n\n"
    )


def test_without_a_redactor_the_secrets_of_our_environment_are_hidden(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_4242424242")
    with Teller(Script()) as tell:
        tell(Line("asked with hf_4242424242"))
    assert capsys.readouterr().err == "asked with [redacted]\n\n"


# --- a terminal ---

# Started, one line of log, ready, and an end; FOLLOW LOG.
SERVICES = """
import asyncio, sys
from pathlib import Path
from ci_doctor.commands.progress import ServiceOutput
from ci_doctor.commands.progress import ServiceSource
from ci_doctor.commands.teller import Teller
from ci_doctor.services.instance import EventKind, ServiceEvent
from ci_doctor.system import clock
from ci_doctor.system.secrets.redaction import Redactor

log = Path(sys.argv[2])

def event(kind, **fields):
    return ServiceEvent(kind=kind, service="vllm", at=clock.now(), pid=4242, log=str(log), **fields)

async def main():
    names = ("kv", "vllm")
    with Teller(ServiceSource(names), Redactor(["hunter22"])) as tell, ServiceOutput(names, tell) as output:
        log.write_text("loading " + "weights " * 40 + "\\n")
        if sys.argv[1] == "follow":
            output(event(EventKind.STARTED))
        tell(event(EventKind.STARTED))
        with log.open("a") as file:
            file.write("the key is hunter22\\n\\x1b[2Jwarm\\n")
        await asyncio.sleep(0)
        tell.say("a sentence")
        tell(event(EventKind.READY, duration_s=3.0))
        tell.freeze()
        tell(event(EventKind.DIED, duration_s=4.0, exit_code=1))

asyncio.run(main())
"""

# Answers come faster than anybody can read them; COUNT PAUSE_S.
ANSWERS = """
import asyncio, sys
from ci_doctor.commands.progress import ExperimentSource
from ci_doctor.commands.teller import Teller
from ci_doctor.correctness.attempt import ExperimentProgress
from ci_doctor.system.secrets.redaction import Redactor

async def main():
    count, pause_s = int(sys.argv[1]), float(sys.argv[2])
    with Teller(ExperimentSource(), Redactor([])) as tell:
        for number in range(1, count + 1):
            tell(ExperimentProgress(start="A1", answers=number, requests=count))
        await asyncio.sleep(pause_s)
        tell(ExperimentProgress(note=sys.argv[3]))
        tell(ExperimentProgress(start="B1", answers=1, requests=2))

asyncio.run(main())
"""

# No event loop, and the last status is wiped.
STEPS = """
from ci_doctor.commands.teller import LineKind
from ci_doctor.commands.teller import StepSource
from ci_doctor.commands.teller import Teller

with Teller(StepSource(LineKind.STATUS)) as tell:
    for number in range(3):
        tell(f"run {number} " + "of many " * 20)
"""


@pytest.mark.integration
def test_a_terminal_gets_one_line_per_service_redrawn_in_place(tmp_path: Path) -> None:
    written = on_terminal(SERVICES, "quiet", str(tmp_path / "log"), columns=COLUMNS)
    frames = written.split("\x1b[2F\x1b[J")
    assert [frame.startswith("a sentence\r\n") for frame in frames] == [False, True, False]
    assert re.search(r"kv    \x1b\[2mwaiting\x1b\[0m", frames[-1])
    assert re.search(r"vllm  \x1b\[32mready\x1b\[0m", frames[-1])
    lines = shown(written)
    assert [line.split()[0] for line in lines if line] == ["a", "kv", "vllm", lines[3].split()[0]]
    assert lines[3].endswith(" s  vllm died after 4.0 s with exit code 1"), "frozen: lines stay"
    assert lines[4:] == ["", ""], "a blank line before the report"
    assert "hunter22" not in written
    frames_alone = re.split(r"\x1b\[2F\x1b\[J", without_colour(written))[:-1]
    assert max(len(line) for frame in frames_alone for line in frame.split("\r\n")) < COLUMNS


@pytest.mark.integration
def test_no_colour_if_none_is_wanted(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    written = on_terminal(SERVICES, "follow", log, columns=COLUMNS, env={"NO_COLOR": "1"})
    assert not re.search(r"\x1b\[\d*m", written)
    assert "\x1b[2F" in written


@pytest.mark.integration
@pytest.mark.parametrize("env", [{"CI": "true"}, {"TERM": "dumb"}])
def test_a_terminal_that_nobody_sits_at_gets_plain_lines(
    tmp_path: Path, env: Mapping[str, str]
) -> None:
    written = on_terminal(SERVICES, "quiet", str(tmp_path / "log"), columns=COLUMNS, env=env)
    assert "\x1b" not in written
    assert re.search(r"\d\.\d s  vllm ready after 3\.0 s\r\n", written)
    assert "\x1b" not in on_terminal(ANSWERS, "9", "0", NOTE, env=env)


@pytest.mark.integration
def test_a_pipe_gets_one_plain_line_per_event(tmp_path: Path) -> None:
    written = in_a_pipe(SERVICES, "quiet", str(tmp_path / "log"))
    assert "\x1b" not in written
    lines = [re.sub(r"^ *\d+\.\d s  ", "", line) for line in written.splitlines()]
    assert lines == [
        f"vllm started (pid 4242, {tmp_path / 'log'})",
        "a sentence",
        "vllm ready after 3.0 s",
        "vllm died after 4.0 s with exit code 1",
        "",
    ]


@pytest.mark.integration
def test_what_a_service_writes_stands_above_the_live_lines_behind_its_name(tmp_path: Path) -> None:
    written = on_terminal(SERVICES, "follow", str(tmp_path / "log"), columns=COLUMNS)
    assert "\x1b[33mvllm | \x1b[0mwarm\r\n" in written
    assert "\x1b[33mvllm | \x1b[0mthe key is [redacted]\r\n" in written
    kv = next(number for number, line in enumerate(shown(written)) if line.startswith("kv"))
    assert "vllm | warm" in shown(written)[:kv]


@pytest.mark.integration
def test_a_flood_of_events_is_drawn_a_few_times_and_the_last_is_seen() -> None:
    written = on_terminal(ANSWERS, "5000", "0.6", NOTE)
    assert "A1  5000/5000 answers" in written, "drawn by the clock"
    assert written.count("answers") < 20


@pytest.mark.integration
def test_a_terminal_breaks_a_sentence_between_words_and_a_status_leaves_no_trace() -> None:
    lines = shown(on_terminal(ANSWERS, "9", "0", NOTE))
    assert " ".join(line.strip() for line in lines if line) == NOTE
    assert max(map(len, lines)) <= 80
    assert len(lines) == 4


@pytest.mark.integration
def test_it_needs_no_event_loop() -> None:
    written = on_terminal(STEPS, columns=COLUMNS)
    assert re.findall(r"run \d", written) == ["run 0", "run 1", "run 2"]
    assert written.count("…\r\n") == 3
    assert shown(written) == [""]


def test_steps_of_short_work_are_never_live() -> None:
    source = StepSource(LineKind.STATUS, quiet_s=2.0)
    begun = clock.now()
    taken(source, "reading")

    assert live(source, now=begun + 1.9) == []
    assert live(source, now=begun + 2.1) == ["reading"]


def test_work_of_less_than_two_seconds_is_silent(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    seconds = 100.0
    monkeypatch.setattr(clock, "now", lambda: seconds)
    with late_teller() as tell:
        tell("reading a.log, 10 %")
        seconds += 1.5
        tell("reading a.log, 50 %")
    assert capfd.readouterr().err == ""

    with late_teller() as tell:
        tell("reading a.log, 10 %")
        seconds += 2.5
        tell("reading a.log, 90 %")
    assert "reading a.log, 90 %" in capfd.readouterr().err
