# SPDX-License-Identifier: Apache-2.0
"""Tests of an experiment made by a program, and of its outcome."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.planning import ExperimentRequest
from ci_doctor.correctness.results import Experiment, ExperimentEnding
from ci_doctor.correctness.run import conclude, judge, preview, run
from ci_doctor.correctness.settings import Arm, ArmSettings, OnInconclusive
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity
from ci_doctor.model.facts.correctness import CorrectnessFacts
from ci_doctor.model.facts.launch import ServiceFailure
from ci_doctor.model.outcome import ErrorKind, Outcome, Verdict
from tests.support.cli import BARE
from tests.support.diagnoses import a_cause
from tests.support.orders import SEED
from tests.unit.correctness.experiments import DEATH, experiment, first_look, result
from tests.unit.correctness.prepared import ENVIRONMENT, prepared, settings

SAME = (result("A1", "one two"), result("B1", "one two"))
UNDECIDED = experiment(
    result("A1", "one two"), result("B1", "one three"), ending=ExperimentEnding.BUDGET
)


def concluded(directory: Path, made: Experiment, **settings: Any) -> Outcome:
    ready = prepared(directory, **settings)
    return conclude(ready, made, judge(ready, made), ("1 baseline start archived",))


def facts_of(outcome: Outcome) -> CorrectnessFacts:
    assert isinstance(outcome.facts, CorrectnessFacts)
    return outcome.facts


def test_the_facts_of_the_run_stand_beside_those_of_the_answers(tmp_path: Path) -> None:
    outcome = concluded(tmp_path, experiment(*SAME))
    facts = facts_of(outcome)
    assert (outcome.verdict, outcome.error) == (Verdict.PASS, None)
    assert facts.kinds["equal"] == 2
    assert facts.schedule is not None
    assert facts.schedule.order.startswith("A B ")
    assert (facts.schedule.made, facts.schedule.seed, facts.schedule.max_starts) == (
        "A1 B1",
        SEED,
        16,
    )
    (order,) = (table for table in outcome.tables if table.title == "Order")
    assert order.rows[0].label == f"A1 B1, drawn with seed {SEED}: --seed {SEED} draws it again"
    assert facts.caches == "fresh"
    assert facts.budget is not None
    assert facts.budget.seconds == 288.0
    assert facts.archive == ("1 baseline start archived",)
    assert [case.name for case in outcome.cases] == ["r0", "r1"]


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        (ExperimentEnding.SIGINT, ErrorKind.SIGINT),
        (ExperimentEnding.SIGTERM, ErrorKind.SIGTERM),
        (ExperimentEnding.SIGHUP, ErrorKind.SIGHUP),
    ],
)
def test_an_interrupted_experiment_has_no_verdict_no_cases_and_the_command_that_goes_on(
    tmp_path: Path, ending: ExperimentEnding, kind: ErrorKind
) -> None:
    outcome = concluded(tmp_path, experiment(*SAME, ending=ending))
    assert outcome.verdict is None
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.findings, outcome.cases) == (kind, (), ())
    assert f"`ci-doctor correctness --resume {tmp_path}/report`" in (outcome.error.hint or "")
    assert outcome.summary == f"interrupted by {ending} after 2 starts; every process was stopped"
    assert len(outcome.attempts) == 2
    assert facts_of(outcome).schedule is None


def test_an_undecided_run_names_what_would_settle_it(tmp_path: Path) -> None:
    outcome = concluded(tmp_path, UNDECIDED)
    settle = facts_of(outcome).settle
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert settle is not None
    assert f"ci-doctor correctness --resume {tmp_path / 'report'}" in settle


@pytest.mark.parametrize(
    ("failure", "remedy"),
    [
        (replace(DEATH, misuse="error: unrecognized arguments: --prot", misused="--prot"), None),
        (replace(DEATH, cause=a_cause()), "Begin at the innermost frame"),
        (DEATH, "--resume"),
    ],
    ids=["wrong flag", "named cause", "no word"],
)
def test_only_what_another_start_may_settle_is_told_to_go_on(
    tmp_path: Path, failure: ServiceFailure, remedy: str | None
) -> None:
    failure = replace(failure, service="candidate", was_ready=False)
    dead = result("B1", "- -", failure=failure, errors={})
    made = experiment(SAME[0], dead, ending=ExperimentEnding.BUDGET)
    outcome = concluded(tmp_path, made, candidate=ArmSettings(command="sleep --prot {port}"))
    assert (facts_of(outcome).settle is not None) == (remedy == "--resume")
    said = f"{outcome.tables} {outcome.findings} {outcome.error}"
    assert ("--resume" in said) == (remedy == "--resume")
    assert "replay" not in said
    if remedy is None:
        assert outcome.error is not None
        assert outcome.error.kind is ErrorKind.USAGE
    else:
        assert remedy in said


def test_a_run_that_is_interrupted_before_its_first_end_cannot_go_on(tmp_path: Path) -> None:
    at_once = concluded(tmp_path, experiment(ending=ExperimentEnding.SIGINT))
    assert at_once.error is not None
    assert at_once.error.hint == "no start was finished: run it again"


def test_an_undecided_run_that_is_let_through_says_so(tmp_path: Path) -> None:
    outcome = concluded(tmp_path, UNDECIDED, on_inconclusive=OnInconclusive.PASS)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert outcome.summary.endswith("; let through")
    assert facts_of(outcome).risk is not None


def different_arms(outcome: Outcome) -> list[str]:
    """What the finding about the arms says; empty if there is none."""
    rule = "correctness/different-arms"
    return [finding.summary for finding in outcome.findings if finding.rule == rule]


def test_arms_that_differ_unasked_are_named_beside_different_answers(tmp_path: Path) -> None:
    torch = {Arm.BASELINE: "2.7.0", Arm.CANDIDATE: "2.7.1"}
    identities = {arm: Identity.of({"torch": version}) for arm, version in torch.items()}
    ready = replace(prepared(tmp_path), identities=identities)
    outcome = conclude(ready, UNDECIDED, judge(ready, UNDECIDED))
    assert different_arms(outcome) == ["the arms differ in torch"]
    equal = experiment(*SAME)
    assert different_arms(conclude(ready, equal, judge(ready, equal))) == []


def test_what_the_configuration_gives_to_one_arm_is_no_finding(tmp_path: Path) -> None:
    candidate = ArmSettings(command="sleep {port} 1", env={"VLLM_USE_V1": "1"})
    outcome = concluded(tmp_path, UNDECIDED, candidate=candidate)
    assert different_arms(outcome) == []
    assert set(facts_of(outcome).identity.arms) == {"argv", "env.VLLM_USE_V1"}


def test_an_archive_has_a_table_of_its_own(tmp_path: Path) -> None:
    outcome = concluded(tmp_path, experiment(*SAME), archive=str(tmp_path / "archive"))
    (table,) = [table for table in outcome.tables if table.title == "Archive"]
    assert [row.label for row in table.rows] == [
        f"no archived baseline of this identity in {tmp_path / 'archive'} yet",
        "1 baseline start archived",
    ]


def test_a_comparison_that_notices_nothing_proves_nothing(tmp_path: Path) -> None:
    # The answers are gone: nothing can be changed in them, so nothing is proven.
    made = Experiment(results=SAME, outputs={}, ending=ExperimentEnding.COMPLETE)
    outcome = concluded(tmp_path, made)
    assert outcome.verdict is Verdict.VOID
    assert "not proven" in outcome.summary


def test_an_extended_runs_regression_states_the_alpha_of_both_limits(tmp_path: Path) -> None:
    made = experiment(*first_look("one two", "one three", 2))
    once = facts_of(concluded(tmp_path, made))
    rules = replace(made.rules, max_starts=32, earlier_max_starts=(16,))
    twice = facts_of(concluded(tmp_path, replace(made, rules=rules)))
    assert once.risk is not None
    assert twice.risk is not None
    assert "at most 2.5%" in once.risk
    assert "at most 5%" in twice.risk


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
    assert facts_of(outcome).starts == {"baseline": 1, "candidate": 1}
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
    monkeypatch.setattr("ci_doctor.correctness.pace.DEFAULT_BUDGET_S", 30.0)
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
    budget = facts_of(outcome).budget
    assert budget is not None
    assert budget.seconds > 30


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
    (order,) = (row.label for row in schedule.rows)
    assert order.startswith("A B ")
    assert len(order.split()) == 16
    assert sorted(path.name for path in tmp_path.iterdir()) == ["requests.jsonl"]
