# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.correctness.collected.compare import CompareRequest, compare
from ci_doctor.correctness.settings import AnswerLevel, Comparison, read_comparison
from ci_doctor.model.facts.compare import CompareFacts
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.verdict import Verdict
from tests.unit.correctness.collected.sample_files import response, write

COMPARISONS = [Comparison(level=level) for level in AnswerLevel]
NEAR = read_comparison(AnswerLevel.NUMBERS, "0.25 nat")
NEARER = read_comparison(AnswerLevel.NUMBERS, "0.125 nat")


def outcome(
    directory: Path, comparison: Comparison, text: str = "a", number: float = -1.0
) -> Outcome:
    """Three equal answers, and one of the candidate that has this text and this number."""
    same = [response(f"c-{number}", "a", -1.0) for number in range(3)]
    write(directory / "a.jsonl", [*same, response("c-3", "a", -1.0)])
    write(directory / "b.jsonl", [*same, response("c-3", text, number)])
    request = CompareRequest(
        baseline=str(directory / "a.jsonl"),
        candidate=str(directory / "b.jsonl"),
        comparison=comparison,
    )
    return compare(request)


@pytest.mark.parametrize(
    ("comparison", "verdict"),
    [
        (COMPARISONS[0], Verdict.PASS),
        (COMPARISONS[1], Verdict.PASS),
        (COMPARISONS[2], Verdict.INCONCLUSIVE),
        (NEAR, Verdict.PASS),
        (NEARER, Verdict.INCONCLUSIVE),
    ],
)
def test_numbers_that_differ_count_as_the_gate_says(
    tmp_path: Path, comparison: Comparison, verdict: Verdict
) -> None:
    made = outcome(tmp_path, comparison, number=-1.25)
    assert made.verdict is verdict
    assert isinstance(made.facts, CompareFacts)
    words, tokens, numbers = made.facts.levels
    assert (words.verdict, tokens.verdict) == ("pass", "pass")
    assert (numbers.apart, numbers.largest_nat) == (1, 0.25)
    assert numbers.verdict == ("pass" if comparison is NEAR else "inconclusive")
    assert [table.title for table in made.tables] == ["Evidence", "Levels"]


@pytest.mark.parametrize("comparison", [*COMPARISONS, NEAR])
def test_other_words_differ_whatever_the_gate_compares(
    tmp_path: Path, comparison: Comparison
) -> None:
    assert outcome(tmp_path, comparison, text="b").verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("comparison", [*COMPARISONS, NEAR])
def test_files_that_are_equal_everywhere_pass_at_every_level(
    tmp_path: Path, comparison: Comparison
) -> None:
    made = outcome(tmp_path, comparison)
    assert made.verdict is Verdict.PASS
    assert isinstance(made.facts, CompareFacts)
    assert {each.verdict for each in made.facts.levels} == {"pass"}
