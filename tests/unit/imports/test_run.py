# SPDX-License-Identifier: Apache-2.0
"""The library entry of the room, without a command line."""

import sys
from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.imports.investigate import RaceRequest
from ci_doctor.imports.run import run
from ci_doctor.model.facts.import_race import ImportRaceFacts
from ci_doctor.model.verdict import Verdict
from ci_doctor.system.secrets.redaction import Redactor

NOTHING = Redactor(())


def a_request(*command: str) -> RaceRequest:
    # Our own stdout is pytest's file.
    return RaceRequest(command=command, output=2)


def test_a_recorded_command_has_an_outcome_and_a_timeline(tmp_path: Path) -> None:
    outcome = run(
        a_request(sys.executable, "-c", "import json"), directory=tmp_path, redactor=NOTHING
    )

    assert (outcome.verdict, outcome.summary) == (Verdict.PASS, "no import race in 1 process")
    assert [each.path for each in outcome.attachments] == ["imports.json"]
    assert isinstance(outcome.facts, ImportRaceFacts)
    assert [process.argv[1:] for process in outcome.facts.processes] == [("-c", "import json")]


def test_a_command_that_does_not_exist_has_the_status_of_a_shell(tmp_path: Path) -> None:
    outcome = run(a_request(str(tmp_path / "nowhere")), directory=None, redactor=NOTHING)

    assert (outcome.verdict, outcome.command_status) == (None, 127)
    assert outcome.error is not None


def test_a_timeline_of_another_tool_is_refused_before_anything_starts(tmp_path: Path) -> None:
    timeline = tmp_path / "data.json"
    timeline.write_text("[]")
    started = tmp_path / "started"
    request = a_request(sys.executable, "-c", f"open({str(started)!r}, 'w')")

    with pytest.raises(UsageError, match="is not a timeline"):
        run(request, directory=None, redactor=NOTHING, timeline=timeline)

    assert not started.exists()
