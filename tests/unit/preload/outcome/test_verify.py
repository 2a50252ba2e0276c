# SPDX-License-Identifier: Apache-2.0
"""`verify` as a library."""

import venv
from pathlib import Path

from ci_doctor.model.facts.preload import VerifyFacts
from ci_doctor.model.outcome import CaseOutcome
from ci_doctor.model.verdict import Verdict
from ci_doctor.preload.interpreters import Interpreters
from ci_doctor.preload.outcome.verify import verify


def test_without_a_shim_nothing_is_proven(tmp_path: Path) -> None:
    venv.create(tmp_path / "v", symlinks=True)
    outcome = verify(Interpreters(venvs=(str(tmp_path / "v"),)), environ={})
    assert (outcome.verdict, outcome.error) == (Verdict.VOID, None)
    assert [finding.rule for finding in outcome.findings] == ["preload/unproven"]
    assert [case.outcome for case in outcome.cases] == [CaseOutcome.ERROR]
    assert isinstance(outcome.facts, VerifyFacts)
    assert [check.outcome for check in outcome.facts.checks] == ["void"]


def test_no_interpreter_could_be_examined(tmp_path: Path) -> None:
    outcome = verify(Interpreters(venvs=(str(tmp_path / "gone"),)), environ={})
    assert outcome.verdict is None
    assert outcome.summary == "no interpreter could be examined"
    assert isinstance(outcome.facts, VerifyFacts)
    assert [each.refused.exit_code for each in outcome.facts.refused] == [2]
