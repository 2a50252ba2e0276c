# SPDX-License-Identifier: Apache-2.0
"""The library entry of `replay`, and the lines that it makes."""

from pathlib import Path

import pytest

from ci_doctor.correctness.report.replay import Mark, ReplayRequest, marked_replay, replay
from ci_doctor.model.facts.correctness import ReplayFacts
from tests.support.tables import lines_of
from tests.unit.correctness.report.recorded_runs import answer, line, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run in which r0 differs, r1 is the same, and r2 has an error."""
    x, y = answer("one\ttwo ", "x"), answer("one\ttwo ", "y")
    return write_run(
        tmp_path / "run",
        *(line("A1", request, x) for request in ("r0", "r1", "r2")),
        *(line("B1", request, each) for request, each in (("r0", y), ("r1", x), ("r2", None))),
        *(line("A2", request, x) for request in ("r0", "r1", "r2")),
    )


def test_a_replay_shows_and_judges_nothing(run: Path) -> None:
    outcome = replay(ReplayRequest(run=run, request="r0"))

    assert (outcome.verdict, outcome.error, outcome.findings) == (None, None, ())
    assert outcome.summary.startswith("request r0: changed: ")
    assert [table.title for table in outcome.tables] == [
        "Answers", "A1 against B1, pass 1", "Log-probabilities", "Beside the answer",
    ]  # fmt: skip


def test_the_answers_stand_with_the_starts_that_gave_them(run: Path) -> None:
    answers, texts, numbers, beside = replay(ReplayRequest(run=run, request="r0")).tables

    assert lines_of(answers) == [
        "a  A1 A2  2 tokens, stop  one⇥two x",
        "b  B1     2 tokens, stop  one⇥two y",
    ]
    assert lines_of(texts) == [
        "diverge at token 1 of text: near-tie, 0.05 nat apart",
        "A1  one⇥two [x]",
        "B1  one⇥two [y]",
    ]
    assert lines_of(numbers)[2].split() == [">", "1", "x", "-0.700000", "y", "-0.700000"]
    assert lines_of(beside)[1].split() == ["status", "200", "200"]


def test_an_answer_that_differs_in_numbers_alone_names_the_one_with_its_words(
    tmp_path: Path,
) -> None:
    x, other, y = answer("one ", "x"), answer("one ", "x", first=-0.5), answer("one ", "y")
    lines = [line("A1", "r0", x), line("B1", "r0", other), line("A2", "r0", y)]
    run = write_run(tmp_path / "run", *lines)

    answers, *_ = replay(ReplayRequest(run=run, request="r0")).tables

    assert lines_of(answers) == [
        "a  A1  2 tokens, stop  one x",
        "b  B1  2 tokens, stop  the words of a, other numbers",
        "c  A2  2 tokens, stop  one y",
    ]


def test_a_start_that_varies_between_its_passes_explains_why_it_is_none_of_the_others(
    tmp_path: Path,
) -> None:
    x, y = answer("one ", "x"), answer("one ", "y")
    baseline = [line("A1", "r0", x, number) for number in (1, 2)]
    candidate = [line("B1", "r0", each, number) for number, each in ((1, x), (2, y))]
    run = write_run(tmp_path / "run", *baseline, *candidate)

    summary = replay(ReplayRequest(run=run, request="r0")).summary

    assert summary == (
        "request r0: changed: the baseline is always the same; the candidate is never the same as it; "
        "B1 differs between its passes, and a start's answer is that of all its passes together"
    )


def test_only_what_differs_is_coloured(run: Path) -> None:
    blocks = marked_replay(ReplayRequest(run=run, request="r0")).blocks
    marked = [piece.text for each in blocks[1].lines for piece in each if piece.mark in {Mark.LEFT, Mark.RIGHT}]  # fmt: skip

    assert marked == ["[x]", "[y]"]


def test_the_facts_are_for_programs(run: Path) -> None:
    facts = replay(ReplayRequest(run=run, request="r0")).facts

    assert isinstance(facts, ReplayFacts)
    assert (facts.kind, facts.starts, facts.passes) == ("changed", ("A1", "B1"), (1, 1))
    assert facts.divergence is not None
    assert (facts.divergence.hardness, facts.divergence.position) == ("near-tie", 1)
    assert facts.logprobs[1].left == (("x", -0.7), ("y", -0.75))
    assert set(facts.answers) == {"A1", "B1", "A2"}


def test_two_answers_that_are_the_same_have_no_divergence(run: Path) -> None:
    outcome = replay(ReplayRequest(run=run, request="r1", starts=("A1", "B1")))

    assert outcome.summary.endswith("; these two are the same")
    assert [table.title for table in outcome.tables] == ["Answers", "Beside the answer"]
    assert isinstance(outcome.facts, ReplayFacts)
    assert outcome.facts.divergence is None


def test_an_error_stands_behind_the_answers(run: Path) -> None:
    answers, *_ = replay(ReplayRequest(run=run, request="r2")).tables

    assert lines_of(answers)[-1] == "✗  B1  HTTP 500"
