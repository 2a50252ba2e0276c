# SPDX-License-Identifier: Apache-2.0
"""A sweep without processes: what the restarts come to together, and what a resumed run keeps."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.model.facts.restart_check import RestartCheckFacts, RestartSweepFacts
from ci_doctor.model.outcome import Outcome, Verdict
from ci_doctor.restart import experiment
from ci_doctor.restart.experiment import run_all
from ci_doctor.restart.report import facts, judge
from ci_doctor.restart.settings import RestartPlan
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.redaction import Redactor
from tests.unit.restart.observations import GOOD, TERMS
from tests.unit.restart.test_planning import all_plans

LINE = 'moment = ["under-load", "stopping"]\nclient = "true"'


class Runs:
    """Takes the place of `run`: verdicts by title, and what was run."""

    def __init__(self, **verdicts: Verdict | Exception) -> None:
        self.verdicts = verdicts
        self.titles: list[str] = []

    def __call__(self, plan: RestartPlan, **_: Any) -> Outcome:
        self.titles.append(plan.title)
        verdict = self.verdicts[plan.moment.name]
        if isinstance(verdict, Exception):
            raise verdict
        return Outcome(
            verdict=verdict,
            summary=f"it is {verdict}",
            facts=facts(GOOD, judge(GOOD, TERMS), TERMS),
        )


def swept(
    monkeypatch: pytest.MonkeyPatch, directory: Path, runs: Runs, *, resume: bool = False
) -> RestartSweepFacts:
    monkeypatch.setattr(experiment, "run", runs)
    made = [
        structs.replace(each, deadline=each.deadline + 1e6) for each in all_plans(directory, LINE)
    ]
    outcome = run_all(made, redactor=Redactor(()), interruption=Interruption(), resume=resume)
    assert isinstance(outcome.facts, RestartSweepFacts)
    assert outcome.verdict == min(
        (cell.verdict for cell in outcome.facts.cells),
        key=[*map(Verdict, ("failed", "void", "inconclusive", "infra", "pass"))].index,
    )
    return outcome.facts


@pytest.mark.parametrize("other", [Verdict.VOID, Verdict.INFRA, Verdict.INCONCLUSIVE])
def test_what_settled_nothing_is_made_again_and_the_rest_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, other: Verdict
) -> None:
    swept(monkeypatch, tmp_path, Runs(UNDER_LOAD=Verdict.FAILED, STOPPING=other))
    runs = Runs(STOPPING=Verdict.PASS)

    resumed = swept(monkeypatch, tmp_path, runs, resume=True)

    assert runs.titles == ["stopping SIGKILL"]
    assert [(each.verdict, each.kept) for each in resumed.cells] == [
        (Verdict.FAILED, True),
        (Verdict.PASS, False),
    ]
    assert isinstance(resumed.cells[0].restart, RestartCheckFacts)


def test_a_run_that_is_cut_short_leaves_nothing_of_an_older_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    swept(monkeypatch, tmp_path, Runs(UNDER_LOAD=Verdict.PASS, STOPPING=Verdict.PASS))
    with pytest.raises(UsageError):
        swept(monkeypatch, tmp_path, Runs(UNDER_LOAD=UsageError("wrong", hint="other")))
    runs = Runs(UNDER_LOAD=Verdict.PASS, STOPPING=Verdict.FAILED)

    resumed = swept(monkeypatch, tmp_path, runs, resume=True)

    assert len(runs.titles) == 2
    assert not any(each.kept for each in resumed.cells)


def test_a_restart_that_the_machine_prevents_does_not_prevent_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = Runs(UNDER_LOAD=InfraError("gone", hint="again"), STOPPING=Verdict.PASS)

    made = swept(monkeypatch, tmp_path, runs)

    assert [(each.verdict, each.summary) for each in made.cells] == [
        (Verdict.INFRA, "gone"),
        (Verdict.PASS, "it is pass"),
    ]


def test_a_restart_that_begins_with_too_little_time_is_not_begun(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = Runs()
    monkeypatch.setattr(experiment, "run", runs)
    plans = [structs.replace(each, deadline=0.0) for each in all_plans(tmp_path, LINE)]

    outcome = run_all(plans, redactor=Redactor(()), interruption=Interruption())

    assert (outcome.verdict, runs.titles) == (Verdict.INCONCLUSIVE, [])


def test_what_is_stored_holds_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Leaking(Runs):
        def __call__(self, plan: RestartPlan, **_: Any) -> Outcome:
            return structs.replace(super().__call__(plan), summary="hunter2-hunter2 is wrong")

    monkeypatch.setattr(
        experiment, "run", Leaking(UNDER_LOAD=Verdict.FAILED, STOPPING=Verdict.FAILED)
    )
    run_all(
        all_plans(tmp_path, LINE),
        redactor=Redactor(("hunter2-hunter2",)),
        interruption=Interruption(),
    )

    texts = [each.read_text() for each in tmp_path.rglob("cell.json")]
    assert len(texts) == 2
    assert not any("hunter2" in each for each in texts)
