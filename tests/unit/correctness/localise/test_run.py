# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.attempt import ExperimentProgress
from ci_doctor.correctness.conclude import judge
from ci_doctor.correctness.localise.localisation import Localisation
from ci_doctor.correctness.localise.run import localise
from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.model.verdict import Verdict
from ci_doctor.system.processes.interruption import Interruption
from tests.unit.correctness.experiments import experiment, first_look
from tests.unit.correctness.prepared import prepared

# A start that takes longer than any budget.
ENDLESS_S = 1e12


def regression() -> Experiment:
    starts = [replace(each, duration_s=ENDLESS_S) for each in first_look("one u", "one v")]
    return experiment(*starts)


def localised(
    directory: Path, told: list[str], made: Experiment, **settings: Any
) -> tuple[Localisation | None, Decision]:
    ready = prepared(directory, passes=1, **settings)
    decision = judge(ready, made)

    def tell(progress: ExperimentProgress) -> None:
        told.append(progress.note)

    return localise(ready, made, decision, tell, Interruption()), decision


def test_a_budget_without_time_for_a_pair_starts_nothing_and_says_so(tmp_path: Path) -> None:
    told: list[str] = []
    found, decision = localised(tmp_path, told, regression(), localise_starts=6)
    assert decision.verdict is Verdict.REGRESSION
    assert found is not None
    assert found.stopped == "the budget leaves no time for a start of each arm"
    assert not found.starts
    assert not found.has_tried
    (note,) = told
    assert note.startswith("r1 differs: up to 6 more starts find the smallest condition")


@pytest.mark.parametrize(
    ("made", "settings"),
    [(regression(), {"localise": False}), (experiment(*first_look("one u", "one u")), {})],
)
def test_what_is_turned_off_or_passes_is_not_localised(
    tmp_path: Path, made: Experiment, settings: dict[str, Any]
) -> None:
    told: list[str] = []
    found, _ = localised(tmp_path, told, made, **settings)
    assert (found, told) == (None, [])
    assert not (tmp_path / "report" / "localise").exists()


def test_a_bug_in_the_search_is_said_and_the_verdict_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("ci_doctor.correctness.localise.run.subject_of", fails)
    told: list[str] = []
    found, decision = localised(tmp_path, told, regression())
    assert (found, decision.verdict) == (None, Verdict.REGRESSION)
    assert told == ["where the arms differ is unknown: ZeroDivisionError('a bug')"]


def test_a_directory_that_cannot_be_written_is_said_and_the_verdict_stands(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("a file")
    found, _ = localised(tmp_path, [], regression())
    assert found is not None
    assert "cannot write" in found.stopped
