# SPDX-License-Identifier: Apache-2.0
import asyncio
from pathlib import Path

import pytest

from ci_doctor.commands.progress import ServiceOutput, ServiceSource
from ci_doctor.commands.teller import Teller
from ci_doctor.services.instance import EventKind, ServiceEvent
from ci_doctor.system.secrets.redaction import Redactor

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
