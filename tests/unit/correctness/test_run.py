# SPDX-License-Identifier: Apache-2.0
"""An experiment made by a program, without a command line."""

import json
import os
import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.request import ExperimentRequest
from ci_doctor.correctness.run import preview, run
from ci_doctor.correctness.settings import ArmSettings
from ci_doctor.errors import UsageError
from ci_doctor.model.facts.correctness import CorrectnessFacts
from ci_doctor.model.verdict import Verdict
from tests.support.cli import BARE
from tests.unit.correctness.prepared import ENVIRONMENT, settings

SERVER = Path(__file__).parents[2] / "support" / "programs" / "serve_model.py"


def request(directory: Path, candidate: str = "", *, resume: bool = False) -> ExperimentRequest:
    command = f"{shlex.join([*BARE, str(SERVER)])} {{port}} start={{start}}"
    return ExperimentRequest(
        settings=settings(
            directory,
            baseline=ArmSettings(command=command),
            candidate=ArmSettings(command=f"{command} {candidate}"),
            retries=2,
            passes=1,
        ),
        resume=resume,
    )


@pytest.mark.integration
def test_an_experiment_needs_no_command_line(tmp_path: Path) -> None:
    starts: set[str] = set()

    outcome = run(
        request(tmp_path),
        directory=tmp_path / "report",
        on_progress=lambda progress: starts.add(progress.start),
    )

    assert (outcome.verdict, outcome.error, outcome.findings) == (Verdict.PASS, None, ())
    assert isinstance(outcome.facts, CorrectnessFacts)
    assert outcome.facts.starts == {"baseline": 1, "candidate": 1}
    assert [attempt.name for attempt in outcome.attempts] == ["A1 baseline", "B1 candidate"]
    samples = (tmp_path / "report" / "samples.jsonl").read_text().splitlines()
    # Two requests, then the control, which belongs to no pass.
    written = [(sample["arm"], sample["pass"]) for sample in map(json.loads, samples)]
    arms = ("baseline", "candidate")
    assert sorted(written) == [(arm, number) for arm in arms for number in (0, 1, 1)]
    assert starts == {"", "A1", "B1"}


@pytest.mark.integration
def test_a_budget_that_nobody_set_is_measured_by_the_first_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_doctor.correctness.budget.DEFAULT_BUDGET_S", 30.0)
    asked = request(tmp_path)
    # So many starts do not fit, however quick one is.
    asked = replace(asked, settings=replace(asked.settings, max_starts=900, budget=None))
    notes: list[str] = []

    outcome = run(
        asked,
        directory=tmp_path / "report",
        environment=ENVIRONMENT,
        on_progress=lambda progress: notes.append(progress.note),
    )

    assert outcome.verdict is Verdict.PASS
    assert any(" instead of 22.0 s: no --budget is set" in note for note in notes)
    assert isinstance(outcome.facts, CorrectnessFacts)
    assert outcome.facts.budget is not None
    assert outcome.facts.budget.seconds > 30


@pytest.mark.integration
def test_a_finished_experiment_can_be_resumed_and_starts_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report"
    first = run(request(tmp_path), directory=report)
    notes: list[str] = []

    again = run(
        request(tmp_path, resume=True),
        directory=report,
        environment=os.environ,
        on_progress=lambda progress: notes.append(progress.note),
    )

    assert (again.verdict, again.summary) == (first.verdict, first.summary)
    assert notes == ["resuming with A1 B1"]


def test_another_experiment_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run to resume"):
        run(request(tmp_path, resume=True), directory=tmp_path, environment=ENVIRONMENT)


def test_a_preview_starts_and_writes_nothing(tmp_path: Path) -> None:
    outcome = preview(
        request(tmp_path, "flip"), directory=tmp_path / "report", environment=ENVIRONMENT
    )
    services, schedule = outcome.tables
    assert (outcome.verdict, outcome.error) == (None, None)
    assert outcome.summary.startswith("would send 2 requests to up to 16 starts")
    assert [row.label.partition(":")[0] for row in services.rows] == ["baseline", "candidate"]
    assert services.rows[1].label.endswith("flip")
    order, outlook = (row.label for row in schedule.rows)
    assert order.startswith("A B ")
    assert len(order.split()) == 16
    assert outlook.startswith("4 min 48 s left of 4 min 48 s: about 9 of 16 starts")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["requests.jsonl"]
