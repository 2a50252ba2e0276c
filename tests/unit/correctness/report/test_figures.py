# SPDX-License-Identifier: Apache-2.0
import json
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ci_doctor.correctness.evidence.samples import Outputs, Sample, SampleWriter
from ci_doctor.correctness.report import figures
from ci_doctor.correctness.report.differences import differences
from ci_doctor.correctness.report.figures import facts
from ci_doctor.correctness.report.picture import tables
from ci_doctor.correctness.results import Experiment, ExperimentEnding, StartResult, Tally
from ci_doctor.correctness.settings import Arm
from ci_doctor.load.canonical import digest
from ci_doctor.model.facts.correctness import CorrectnessFacts
from ci_doctor.model.facts.launch import ServiceRun
from ci_doctor.model.outcome import CaseOutcome, Verdict
from ci_doctor.system.secrets.redaction import Redactor
from tests.support.growth import assert_linear
from tests.unit.correctness.experiments import (
    DEATH,
    DIRECTORY,
    context,
    decided,
    experiment,
    first_look,
    result,
)
from tests.unit.correctness.report.recorded_runs import answer


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
    cases = figures.cases(decision, ["r0", "r1"], {"r1": "HTTP 500"})
    assert [case.outcome for case in cases] == [CaseOutcome(outcome) for outcome in outcomes]
    assert [case.detail for case in cases] == [None, "HTTP 500"]


def test_an_attempt_says_how_a_start_ended() -> None:
    log = str(DIRECTORY / "logs/A1/vllm-1.log")
    service = ServiceRun(name="vllm", log=log, started_at=7.0, ready_s=3.125, peak_rss=4096)
    made = experiment(
        result("A1", "x x", services=(service,)),
        result("B1", "x -"),
        result("A2", "- -", failure=DEATH),
        result("B2", "x -", failure=DEATH),
        result("A3", "x -", cut_short=True),
        result("B3", "x x", services=()),
    )
    attempts = figures.attempts(made, DIRECTORY)
    assert [(attempt.name, attempt.outcome, attempt.ok) for attempt in attempts] == [
        ("A1 baseline", "answered 2/2", True),
        ("B1 candidate", "answered 1/2", False),
        ("A2 baseline", DEATH.message, False),
        ("B2 candidate", f"{DEATH.message}; answered 1/2", False),
        ("A3 baseline", "cut short, answered 1/2", False),
        ("B3 candidate", "answered 2/2", True),
    ]
    assert [attempt.facts["ready_after_s"] for attempt in attempts[:2]] == [3.12, None]
    assert [attempt.facts["peak_rss"] for attempt in attempts[:2]] == [4096, None]
    assert attempts[0].log == "logs/A1/vllm-1.log"
    assert attempts[-1].log is None


def test_the_samples_and_the_logs_of_what_failed_are_attached() -> None:
    made = experiment(result("A1", "x x"), result("B1", "- -", failure=DEATH))
    found = figures.attachments(made, DIRECTORY / "samples.jsonl", DIRECTORY)
    assert [attachment.path for attachment in found] == ["samples.jsonl", "logs/B1/vllm-1.log"]


def test_what_the_policy_lets_pass_is_no_error_to_a_reader_that_only_counts() -> None:
    made = experiment(result("A1", "x x"), result("B1", "x y"))
    decision = replace(decided(made), verdict=Verdict.PASS)

    cases = figures.cases(decision, ["r0", "r1"], {})
    assert [case.outcome for case in cases] == [CaseOutcome.PASSED] * 2


def test_a_warm_up_is_an_attempt_that_is_not_compared() -> None:
    (attempt,) = figures.attempts(experiment(result("A0", "x x", warm_up=True)), DIRECTORY)

    assert (attempt.name, attempt.outcome) == ("warm-up", "answered 2/2; not compared")


def as_json(*results: StartResult) -> dict[str, Any]:
    """The facts, as JSON holds them."""
    made = experiment(*results)
    count = len(results[0].start.answers)
    decision = decided(made, count)
    found = differences(made, decision, [f"r{index}" for index in range(count)])
    values: dict[str, Any] = json.loads(msgspec.json.encode(facts(made, decision, found)))
    return values


def test_the_facts_are_figures_that_json_can_hold() -> None:
    told = as_json(result("A1", "x same"), result("B1", "y same"))

    assert told["version"] == 1
    assert told["starts"] == {"baseline": 1, "candidate": 1}
    assert told["differing"] == {"A1/B1": 1}
    assert told["differences_by"] == {
        "near-tie": 0, "numbers": 0, "missing": 0, "unknown": 1, "length": 0, "hard": 0,
    }  # fmt: skip
    where = {"positions": [0], "min": 0, "median": 0, "max": 0}
    assert told["divergence"] == {"unit": "character", **where}
    assert told["test"] is None or told["test"]["alpha"] == 0.05


def test_where_nothing_differs_there_is_no_divergence() -> None:
    told = as_json(result("A1", "x same"), result("B1", "x same"))

    assert (told["divergence"], told["aligned"], told["suspects"]) == (None, [], [])
    assert told["rare_bug_bound"] == pytest.approx(0.975)


def test_the_matrix_numbers_answers_in_order_of_appearance() -> None:
    told = as_json(result("A1", "x one"), result("B1", "y one"), result("A2", "y -"))["matrix"]

    assert told["starts"][0] == {
        "name": "A1",
        "arm": "baseline",
        "archived": False,
        "ok": True,
        "answered": 2,
        "in_part": 0,
    }
    assert told["requests"] == [
        {"id": "r0", "kind": "flaky", "classes": [0, 1, 1]},
        {"id": "r1", "kind": "flaky", "classes": [0, 0, None]},
    ]


def test_the_hardest_three_are_aligned() -> None:
    told = as_json(result("A1", "one one one one"), result("B1", "two two two two"))["aligned"]

    assert [each["request"] for each in told] == ["r0", "r1", "r2"]
    assert told[0] == {
        "request": "r0", "kind": "changed", "starts": ["A1", "B1"], "pass": 1, "field": "text", "choice": 0, "apart": None,
        "unit": "character", "position": 0, "hardness": "unknown", "gap": None, "ulp": None, "before": "", "left": "one", "right": "two", "logprobs": [],
    }  # fmt: skip


def test_facts_of_starts_are_split_into_what_is_the_same_and_what_is_not() -> None:
    told = as_json(
        result("A1", "x", facts={"gpu": "0", "cublas": "1"}),
        result("B1", "x", facts={"gpu": "0", "cublas": "2"}),
    )

    assert told["identity"] == {
        "facts": {"gpu": "0"},
        "unknown": [],
        "why_unknown": {},
        "differences": [{"fact": "cublas", "values": {"A1": "1", "B1": "2"}}],
        "arms": {},
    }


def test_programs_too_are_told_nothing_of_starts_that_answered_nothing() -> None:
    told = as_json(result("A1", "x same"), result("B1", "- -"), result("A2", "x same"))

    assert told["clusters"] == [["A1", "A2"]]
    assert told["differing"] == {"A1/A2": 0}


def test_a_log_probability_of_the_aligned_ones_is_told_token_by_token() -> None:
    outputs = [answer("a", "x"), answer("a", "y")]
    results = [
        result(name, name[0].lower(), digests={"r0": {1: digest(each)}})
        for name, each in zip(("A1", "B1"), outputs, strict=True)
    ]
    known = {digest(each): each for each in outputs}
    made = replace(experiment(*results), outputs=known)
    decision = decided(made, 1)
    (told,) = facts(made, decision, differences(made, decision, ["r0"])).aligned

    assert (told.hardness, told.position) == ("near-tie", 1)
    assert json.loads(msgspec.json.encode(told.logprobs)) == [
        {
            "at": 0,
            "left": [["a", -0.25], ["z", -3.0]],
            "right": [["a", -0.25], ["z", -3.0]],
            "ulp": 0,
        },
        {
            "at": 1,
            "left": [["x", -0.7], ["y", -0.75]],
            "right": [["y", -0.7], ["x", -0.75]],
            "ulp": None,
        },
    ]


def many(path: Path, count: int) -> Experiment:
    """`count` requests, 8 starts, 2 passes, 10 KB an answer, on disk; every start has an answer of its own to each."""
    ids = [f"r{index}" for index in range(count)]
    outputs, results = Outputs(), []
    with SampleWriter(path, Redactor(())) as writer:
        for index, name in enumerate(("A1", "B1", "A2", "A3", "B2", "A4", "B3", "A5")):
            arm = Arm.BASELINE if name[0] == "A" else Arm.CANDIDATE
            tally = Tally(arm=arm, number=int(name[1:]), ids=ids, passes=2)
            for identity in ids:
                said = {
                    "choices": [{"index": 0, "text": f"{identity} {'w' * 5000}{index}{'v' * 5000}"}]
                }
                for number in (1, 2):
                    sample = Sample(
                        arm=arm.value,
                        start=tally.number,
                        pass_=number,
                        id=identity,
                        digest=digest(said),
                        output=said,
                    )
                    outputs.note(digest(said), path, writer.write(sample))
                    tally.add(sample)
            results.append(tally.result())
    return Experiment(results=tuple(results), outputs=outputs, ending=ExperimentEnding.COMPLETE)


def describe(made: Experiment, count: int) -> CorrectnessFacts:
    decision = decided(made, count)
    found = differences(made, decision, [f"r{index}" for index in range(count)])
    told = facts(made, decision, found)
    list(tables(told, decision, found, context(count)))
    return told


@pytest.mark.nightly
def test_many_requests_are_described_in_proportion_of_time(tmp_path: Path) -> None:
    experiments = {count: many(tmp_path / f"{count}.jsonl", count) for count in (60, 240)}

    assert_linear(lambda count: describe(experiments[count], count), 60)


@pytest.mark.nightly
def test_many_requests_are_described_in_the_memory_of_a_few(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    made = many(path, 250)
    tracemalloc.start()
    try:
        told = describe(made, 250)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < path.stat().st_size / 10
    assert told.divergence is not None
    assert (told.divergence.min, told.divergence.max) == (5003, 5005)
