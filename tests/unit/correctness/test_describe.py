# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from ci_doctor.correctness import describe
from ci_doctor.correctness.results import StartResult
from ci_doctor.model.report import Outcome
from ci_doctor.model.verdict import Verdict
from tests.unit.correctness.experiments import DEATH, DIRECTORY, context, decided, experiment, result


def lines(*results: StartResult) -> tuple[str, ...]:
    made = experiment(*results)
    (section,) = describe.sections(made, decided(made))
    return section.lines


def test_the_evidence_answers_a_persons_questions_in_their_order() -> None:
    assert lines(result("A1", "x same"), result("B1", "y same"), result("A2", "y same")) == (
        "starts     A1 A2 | B1   answered 2/2 each",
        "clusters   {A1}  {B1 A2}",
        "differing  A/A 1   A/B 0 to 1   of 2 requests",
        "requests   1 equal, 1 flaky",
    )


def test_starts_that_answered_less_are_told_one_by_one() -> None:
    assert lines(result("A1", "x x"), result("B1", "x -"))[0] == "starts     A1 | B1   A1 2/2, B1 1/2"


def test_where_no_start_is_evidence_there_is_no_section() -> None:
    made = experiment(result("A1", "x x", cut_short=True))
    assert describe.sections(made, decided(made)) == ()


@pytest.mark.parametrize(
    ("results", "verdict", "outcomes"),
    [
        ([result("A1", "x x"), result("B1", "x x")], Verdict.PASS, ["passed", "passed"]),
        ([result("A1", "x x"), result("B1", "x y"), result("A2", "x x"), result("B2", "x y")], Verdict.REGRESSION, ["passed", "failed"]),
        ([result("A1", "x x"), result("B1", "x y"), result("A2", "x y")], Verdict.FLAKY, ["passed", "passed"]),
        ([result("A1", "x x"), result("B1", "x z"), result("A2", "x y")], Verdict.INCONCLUSIVE, ["passed", "error"]),
        ([result("A1", "x -"), result("B1", "x -")], Verdict.VOID, ["error", "error"]),
        ([result("A1", "x x")], Verdict.VOID, ["error", "error"]),
        ([result("A1", "x x", failure=DEATH), result("B1", "x x")], Verdict.INFRA, ["error", "error"]),
    ],
)  # fmt: skip
def test_no_case_passes_where_the_evidence_proves_nothing(
    results: list[StartResult], verdict: Verdict, outcomes: list[str]
) -> None:
    made = experiment(*results)
    decision = decided(made)
    assert decision.verdict is verdict
    cases = describe.cases(decision, context().requests, {"r1": "HTTP 500"})
    assert [case.outcome for case in cases] == [Outcome(outcome) for outcome in outcomes]
    assert [case.detail for case in cases] == [None, "HTTP 500"]


def test_an_attempt_says_how_a_start_ended() -> None:
    made = experiment(
        result("A1", "x x"),
        result("B1", "x -"),
        result("A2", "- -", failure=DEATH),
        result("B2", "x -", failure=DEATH),
        result("A3", "x -", cut_short=True),
        result("B3", "x x", logs=()),
    )
    attempts = describe.attempts(made, DIRECTORY)
    assert [(attempt.name, attempt.outcome, attempt.ok) for attempt in attempts] == [
        ("A1 baseline", "answered 2/2", True),
        ("B1 candidate", "answered 1/2", False),
        ("A2 baseline", DEATH.message, False),
        ("B2 candidate", f"{DEATH.message}; answered 1/2", False),
        ("A3 baseline", "cut short, answered 1/2", False),
        ("B3 candidate", "answered 2/2", True),
    ]
    assert attempts[0].log == "logs/A1/vllm-1.log"
    assert attempts[-1].log is None


def test_the_samples_and_the_logs_of_what_failed_are_attached() -> None:
    made = experiment(result("A1", "x x"), result("B1", "- -", failure=DEATH))
    found = describe.attachments(made, DIRECTORY / "samples.jsonl", DIRECTORY)
    assert [attachment.path for attachment in found] == ["samples.jsonl", "logs/B1/vllm-1.log"]


def test_the_facts_are_figures_that_json_can_hold() -> None:
    made = experiment(result("A1", "x same"), result("B1", "y same"))
    facts = describe.facts(made, decided(made), ())
    assert json.loads(json.dumps(facts)) == facts
    assert facts["starts"] == {"baseline": 1, "candidate": 1}
    assert facts["differing"] == {"A1/B1": 1}
    assert facts["not_equal"] == {"r0": "changed"}
    assert facts["first_divergence"] is None


def test_starts_that_answered_nothing_are_said_to_agree_on_nothing() -> None:
    told = lines(result("A1", "- -"), result("A2", "- -"))

    assert [line.split()[0] for line in told] == ["starts", "requests"]


def test_programs_too_are_told_nothing_of_starts_that_answered_nothing() -> None:
    made = experiment(result("A1", "x same"), result("B1", "- -"), result("A2", "x same"))
    told = describe.facts(made, decided(made), ())
    assert told["clusters"] == [["A1", "A2"]]
    assert told["differing"] == {"A1/A2": 0}
