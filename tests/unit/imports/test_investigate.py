# SPDX-License-Identifier: Apache-2.0
"""An investigation from the command to the outcome."""

import sys
from pathlib import Path

from ci_doctor.imports.investigate import RaceRequest, run
from ci_doctor.model.facts.import_race import ImportRaceFacts
from ci_doctor.model.verdict import Verdict
from ci_doctor.system.secrets.redaction import Redactor

NOTHING = Redactor(())


def a_request(*command: str) -> RaceRequest:
    # Our own stdout is pytest's file.
    return RaceRequest(command=command, output=2)


def test_a_recorded_command_has_an_outcome(tmp_path: Path) -> None:
    outcome = run(
        a_request(sys.executable, "-c", "import json"), directory=tmp_path, redactor=NOTHING
    )

    assert (outcome.verdict, outcome.summary) == (Verdict.PASS, "no import race in 1 process")
    assert isinstance(outcome.facts, ImportRaceFacts)
    assert [process.argv[1:] for process in outcome.facts.processes] == [("-c", "import json")]


def test_a_command_that_does_not_exist_has_the_status_of_a_shell(tmp_path: Path) -> None:
    outcome = run(a_request(str(tmp_path / "nowhere")), directory=None, redactor=NOTHING)

    assert (outcome.verdict, outcome.command_status) == (None, 127)
    assert outcome.error is not None
