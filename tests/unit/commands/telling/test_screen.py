# SPDX-License-Identifier: Apache-2.0
import io
import os
import re

import pytest

from ci_doctor.commands.teller import Screen, Span, write


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
