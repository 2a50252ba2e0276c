# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.conclude import conclude, judge
from ci_doctor.correctness.results import Experiment, ExperimentEnding
from ci_doctor.correctness.settings import Arm, ArmSettings, OnInconclusive
from ci_doctor.identity.identity import Identity
from ci_doctor.model.facts.correctness import CorrectnessFacts
from ci_doctor.model.outcome import ErrorKind, Outcome
from ci_doctor.model.verdict import Verdict
from tests.support.orders import SEED
from tests.unit.correctness.experiments import experiment, first_look, result
from tests.unit.correctness.prepared import prepared

SAME = (result("A1", "one two"), result("B1", "one two"))
OTHER = (result("A1", "one two"), result("B1", "one three"))


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
def test_an_interrupted_experiment_has_no_verdict_and_no_cases(
    tmp_path: Path, ending: ExperimentEnding, kind: ErrorKind
) -> None:
    outcome = concluded(tmp_path, experiment(*SAME, ending=ending))
    assert outcome.verdict is None
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.findings, outcome.cases) == (kind, (), ())
    assert outcome.summary == f"interrupted by {ending} after 2 starts; every process was stopped"
    assert len(outcome.attempts) == 2
    assert facts_of(outcome).schedule is None


def test_an_undecided_run_names_what_would_settle_it(tmp_path: Path) -> None:
    outcome = concluded(tmp_path, experiment(*OTHER, ending=ExperimentEnding.BUDGET))
    settle = facts_of(outcome).settle
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert settle is not None
    assert f"ci-doctor correctness --resume {tmp_path / 'report'}" in settle


def test_an_undecided_run_that_is_let_through_says_so(tmp_path: Path) -> None:
    made = experiment(*OTHER, ending=ExperimentEnding.BUDGET)
    outcome = concluded(tmp_path, made, on_inconclusive=OnInconclusive.PASS)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert outcome.summary.endswith("; let through")
    assert facts_of(outcome).risk is not None


def different_arms(outcome: Outcome) -> list[str]:
    """What the finding about the arms says; empty if there is none."""
    rule = "correctness/different-arms"
    return [finding.summary for finding in outcome.findings if finding.rule == rule]


def test_arms_that_differ_unasked_are_named_beside_different_answers(tmp_path: Path) -> None:
    made = experiment(*OTHER, ending=ExperimentEnding.BUDGET)
    ready = prepared(tmp_path)
    torch = {Arm.BASELINE: "2.7.0", Arm.CANDIDATE: "2.7.1"}
    identities = {arm: Identity.of({"torch": version}) for arm, version in torch.items()}
    ready = replace(ready, identities=identities)
    outcome = conclude(ready, made, judge(ready, made))
    assert different_arms(outcome) == ["the arms differ in torch"]
    equal = experiment(*SAME)
    assert different_arms(conclude(ready, equal, judge(ready, equal))) == []


def test_what_the_configuration_gives_to_one_arm_is_no_finding(tmp_path: Path) -> None:
    candidate = ArmSettings(command="sleep {port} 1", env={"VLLM_USE_V1": "1"})
    made = experiment(*OTHER, ending=ExperimentEnding.BUDGET)
    outcome = concluded(tmp_path, made, candidate=candidate)
    assert different_arms(outcome) == []
    assert set(facts_of(outcome).identity.arms) == {"argv", "env.VLLM_USE_V1"}


def test_an_archive_has_a_table_of_its_own(tmp_path: Path) -> None:
    outcome = concluded(tmp_path, experiment(*SAME), archive=str(tmp_path / "archive"))
    (table,) = [table for table in outcome.tables if table.title == "Archive"]
    assert [row.label for row in table.rows] == [
        f"no archived baseline in {tmp_path / 'archive'} yet",
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
