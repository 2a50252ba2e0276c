# SPDX-License-Identifier: Apache-2.0
"""The library entry of `compare`, and what its outcome holds."""

import json
from pathlib import Path

import pytest

from ci_doctor.correctness.collected.compare import CompareRequest, compare
from ci_doctor.errors import UsageError
from ci_doctor.model.facts import Facts
from ci_doctor.model.facts.compare import CompareFacts
from ci_doctor.model.finding import Severity
from ci_doctor.model.outcome import CaseOutcome, Outcome
from ci_doctor.model.verdict import Verdict
from tests.support.tables import lines_of
from tests.unit.correctness.collected.sample_files import responses, write


def compared(directory: Path, left: str, right: str, *, details: bool = True) -> Outcome:
    a = write(directory / "a.jsonl", responses(left))
    b = write(directory / "b.jsonl", responses(right))
    return compare(CompareRequest(baseline=str(a), candidate=str(b), details=details))


def test_equal_files_pass_without_a_finding(tmp_path: Path) -> None:
    outcome = compared(tmp_path, "x y", "x y")

    assert (outcome.verdict, outcome.findings) == (Verdict.PASS, ())
    assert [case.outcome for case in outcome.cases] == [CaseOutcome.PASSED] * 2


def test_the_evidence_is_a_table(tmp_path: Path) -> None:
    (table,) = compared(tmp_path, "x y", "x z").tables

    assert [row.label for row in table.rows] == [
        "baseline", "candidate", "aligned", "starts", "clusters", "requests", "to settle",
    ]  # fmt: skip
    lines = lines_of(table)
    assert lines[2:6] == [
        "aligned    by id",
        "starts     A1 | B1   answered 2/2 each",
        "clusters   {A1}  {B1}",
        "requests   1 equal, 1 changed",
    ]


def test_a_difference_is_a_finding_at_its_line(tmp_path: Path) -> None:
    (finding,) = compared(tmp_path, "x y", "x z").findings

    assert (finding.rule, finding.severity) == ("correctness/inconclusive", Severity.WARNING)
    assert finding.summary.startswith("c-1: the baseline is always the same")
    (evidence,) = finding.evidence
    assert (evidence.file, evidence.line) == (str(tmp_path / "b.jsonl"), 2)


def test_requests_without_an_answer_are_a_finding_for_each_start(tmp_path: Path) -> None:
    outcome = compared(tmp_path, "x y", "x -")
    (finding,) = [each for each in outcome.findings if each.rule == "correctness/unanswered"]

    assert finding.summary == "1 of 2 requests have no answer in B1"
    assert outcome.cases[0].outcome is CaseOutcome.ERROR


def test_files_that_prove_nothing_are_void_with_the_reason(tmp_path: Path) -> None:
    outcome = compared(tmp_path, "", "")

    assert (outcome.verdict, outcome.facts) == (Verdict.VOID, Facts())
    assert outcome.summary.endswith("is empty")
    assert [finding.rule for finding in outcome.findings] == ["correctness/void"]


def test_the_facts_are_typed(tmp_path: Path) -> None:
    facts = compared(tmp_path, "x y", "x z").facts

    assert isinstance(facts, CompareFacts)
    assert (facts.requests, facts.aligned_by, facts.kinds["changed"]) == (2, "id", 1)
    assert facts.matrix.requests[0].classes == (0, 1)
    assert facts.matrix.left_out == 1
    assert facts.divergence is not None
    assert facts.divergence.positions == (4,)
    assert (facts.examined.differing, facts.examined.read) == (1, 1)


def test_without_details_there_are_no_facts_and_no_cases(tmp_path: Path) -> None:
    outcome = compared(tmp_path, "x y", "x y", details=False)

    assert (outcome.facts, outcome.cases) == (Facts(), ())
    assert outcome.tables


def test_a_missing_file_is_an_error_of_usage_even_beside_an_empty_one(tmp_path: Path) -> None:
    empty = write(tmp_path / "a.jsonl", [])

    with pytest.raises(UsageError, match="no such file"):
        compare(CompareRequest(baseline=str(empty), candidate=str(tmp_path / "gone")))


def collected(directory: Path, order: str, *, texts: dict[str, str], clock: bool = True) -> Outcome:
    """Starts in that order of time: each is a file of response objects, and answers with its arm's text."""
    for number, letter in enumerate(order):
        place = directory / letter / f"{number:03}.jsonl"
        place.parent.mkdir(parents=True, exist_ok=True)
        line = {
            "id": "r0",
            "object": "text_completion",
            "created": 1_000 + 60 * number if clock else 0,
            "choices": [{"index": 0, "text": texts[letter], "finish_reason": "stop"}],
        }
        place.write_text(json.dumps(line) + "\n", encoding="utf-8")
    return compare(CompareRequest(baseline=str(directory / "A"), candidate=str(directory / "B")))


CHANGED = {"A": "ash bay", "B": "ash cod"}


@pytest.mark.parametrize("order", ["ABABABABAB", "BABABABAB", "ABBABAABABBA"])
def test_starts_made_in_turn_are_a_regression(tmp_path: Path, order: str) -> None:
    outcome = collected(tmp_path, order, texts=CHANGED)
    assert outcome.verdict is Verdict.REGRESSION


@pytest.mark.parametrize("order", ["AAAAABBBBB", "BBBBBBBBAAAAAAAA", "AABBBBBAAA"])
def test_arms_that_lie_apart_in_time_are_told_apart_by_nothing_else(
    tmp_path: Path, order: str
) -> None:
    outcome = collected(tmp_path, order, texts=CHANGED)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert "time alone explains it" in outcome.summary
    assert "in turn (A B B A" in str(outcome.findings[0].remedy)


def test_starts_whose_time_is_not_recorded_are_in_no_order(tmp_path: Path) -> None:
    outcome = collected(tmp_path, "ABABABABAB", texts=CHANGED, clock=False)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert "nothing records the order of the starts" in outcome.summary
