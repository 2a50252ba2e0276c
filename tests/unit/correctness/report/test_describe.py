# SPDX-License-Identifier: Apache-2.0
import pytest
from msgspec.structs import replace

from ci_doctor.correctness.report import describe
from ci_doctor.correctness.results import StartResult
from ci_doctor.model.outcome import CaseOutcome
from ci_doctor.model.verdict import Verdict
from tests.unit.correctness.experiments import (
    DEATH,
    DIRECTORY,
    context,
    decided,
    experiment,
    first_look,
    result,
)


@pytest.mark.parametrize(
    ("results", "verdict", "outcomes"),
    [
        ([result("A1", "x x"), result("B1", "x x")], Verdict.PASS, ["passed", "passed"]),
        (first_look("x x", "x y"), Verdict.REGRESSION, ["passed", "failed"]),
        ([result("A1", "x x"), result("B1", "x x"), result("A2", "x y")], Verdict.FLAKY, ["passed", "passed"]),
        ([result("A1", "x x"), result("B1", "x z"), result("A2", "x y")], Verdict.INCONCLUSIVE, ["passed", "error"]),
        ([result("A1", "x -"), result("B1", "x -")], Verdict.VOID, ["error", "error"]),
        ([result("A1", "x x")], Verdict.VOID, ["error", "error"]),
        ([result("A1", "x x", failure=DEATH), result("B1", "x x")], Verdict.FAILED, ["error", "error"]),
    ],
)  # fmt: skip
def test_no_case_passes_where_the_evidence_proves_nothing(
    results: list[StartResult], verdict: Verdict, outcomes: list[str]
) -> None:
    made = experiment(*results)
    decision = decided(made)
    assert decision.verdict is verdict
    cases = describe.cases(decision, context().requests, {"r1": "HTTP 500"})
    assert [case.outcome for case in cases] == [CaseOutcome(outcome) for outcome in outcomes]
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


def test_what_the_policy_lets_pass_is_no_error_to_a_reader_that_only_counts() -> None:
    made = experiment(result("A1", "x x"), result("B1", "x y"))
    decision = replace(decided(made), verdict=Verdict.PASS)

    assert [case.outcome for case in describe.cases(decision, context().requests, {})] == [
        CaseOutcome.PASSED
    ] * 2


def test_a_warm_up_is_an_attempt_that_is_not_compared() -> None:
    (attempt,) = describe.attempts(experiment(result("A0", "x x", warm_up=True)), DIRECTORY)

    assert (attempt.name, attempt.outcome) == ("warm-up", "answered 2/2; not compared")
