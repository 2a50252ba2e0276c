# SPDX-License-Identifier: Apache-2.0
"""What is heavy in a start file, and `status` as a library."""

import venv
from pathlib import Path

from ci_doctor.model.facts.preload import StatusFacts
from ci_doctor.model.outcome import ErrorKind
from ci_doctor.preload.interpreter import Interpreters
from ci_doctor.preload.verify import status


def test_an_environment_without_a_shim_is_not_judged(tmp_path: Path) -> None:
    venv.create(tmp_path / "v", symlinks=True)
    outcome = status(Interpreters(venvs=(str(tmp_path / "v"),)), environ={})
    assert (outcome.verdict, outcome.error) == (None, None)
    assert outcome.summary == "a shim is installed in 0 of 1 interpreters"
    assert isinstance(outcome.facts, StatusFacts)
    (shim,) = outcome.facts.shims
    assert (shim.state, shim.installed, shim.rules) == ("asked", False, ())
    assert set(shim.files.values()) == {"absent"}
    assert shim.start_up is not None
    assert any(row.label == "no rule" for row in outcome.tables[0].rows)


def test_an_interpreter_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    outcome = status(Interpreters(venvs=(str(tmp_path / "gone"),)), environ={})
    assert outcome.error is not None
    assert outcome.error.kind is ErrorKind.USAGE
    assert isinstance(outcome.facts, StatusFacts)
    assert [shim.state for shim in outcome.facts.shims] == ["refused"]
