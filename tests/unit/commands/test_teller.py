# SPDX-License-Identifier: Apache-2.0
"""What progress shows, the same on a terminal and in a log."""

import contextlib
import os

import pytest

from ci_doctor.commands.teller import Teller, late_teller
from ci_doctor.system import clock
from ci_doctor.system.secrets.redaction import Redactor
from tests.support.terminal import in_a_pipe, on_terminal

NOTE = "24 min 35 s left: about 124 starts of 11.8 s fit (measured in 1 start); the schedule needs 1 to 7 more"


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


def teller(*secrets: str) -> Teller:
    return Teller(Redactor(secrets))


@pytest.mark.parametrize("reader", ["full", "gone", "none"])
def test_a_stderr_that_takes_nothing_stops_nothing(
    reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, descriptor = os.pipe()
    os.close(other)
    if reader == "full":
        os.close(descriptor)
        descriptor = os.open("/dev/full", os.O_WRONLY)
    stream = os.fdopen(descriptor, "w", buffering=1)
    monkeypatch.setattr("sys.stderr", None if reader == "none" else stream)
    with teller() as tell:
        tell.say("progress")
        tell.say("progress")
    with contextlib.suppress(OSError):
        stream.close()


# --- in the log of a CI ---

GROUPED = """
import sys
from ci_doctor.commands.teller import Teller

with Teller(group="ci-doctor launch: services") as tell:
    for step in sys.argv[1:]:
        if step == "client":
            tell.hand_over("running pytest")
            print("1 failed", file=sys.stderr)
        else:
            tell.say(step)
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


def test_a_terminal_gets_plain_lines() -> None:
    log = on_terminal(GROUPED, "ready", env={"BUILDKITE": "true"})

    assert log.splitlines() == ["--- ci-doctor launch: services", "ready", ""]
    assert on_terminal(GROUPED, "ready").splitlines() == ["ready", ""]


# --- plain lines ---


def test_a_log_breaks_no_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with teller() as tell:
        tell.say(NOTE)
    assert capsys.readouterr().err == f"{NOTE}\n\n"


def test_nothing_shown_leaves_no_blank_line(capsys: pytest.CaptureFixture[str]) -> None:
    with teller() as tell:
        tell("1/9")
    assert capsys.readouterr().err == ""


def test_a_status_is_shown_once_in_a_while_and_other_lines_always(
    capsys: pytest.CaptureFixture[str], time: Clock
) -> None:
    with teller() as tell:
        for second in range(14):
            time.now = 1000.0 + second
            tell(f"status {second}")
            if second == 9:
                tell.say("kept")
    # After 2 s, then every 5 s, and 2 s after a line which tells more.
    assert capsys.readouterr().err.split("\n") == [
        "status 2", "status 7", "kept", "status 12", "", "",
    ]  # fmt: skip


def test_every_line_is_one_without_secrets_and_without_escapes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with teller("hunter22") as tell:
        tell.say("  the key\n is hun\x1b[1mter22\x1b[2J")
        tell.warn("curl --api-key 4242424242")
        tell.output("kv | ", "a\nhunter22")
    assert capsys.readouterr().err == (
        "  the key is [redacted]\nwarning: curl --api-key [redacted]\nkv | a\nkv | [redacted]\n\n"
    )


def test_without_a_redactor_the_secrets_of_our_environment_are_hidden(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_4242424242")
    with Teller() as tell:
        tell.say("asked with hf_4242424242")
    assert capsys.readouterr().err == "asked with [redacted]\n\n"


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
