# SPDX-License-Identifier: Apache-2.0
"""One request of a run, read back from its samples; which answers are shown, and how."""

import json
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.correctness.evidence.run_identity import RunIdentity
from ci_doctor.correctness.evidence.run_identity import write_run as write_identity
from ci_doctor.correctness.report.replay import (
    RecordedRequest,
    ReplayRequest,
    choose_pair,
    names_of,
    read_request,
    replay,
)
from ci_doctor.correctness.results import level_digests
from ci_doctor.correctness.verdict.starts import DifferenceKind
from ci_doctor.errors import UsageError
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

    assert lines_of(answers)[-1] == "✗  B1     HTTP 500"


X = answer("a", "x")
Y = answer("a", "y")


def test_a_request_is_read_back_with_every_start_and_pass(tmp_path: Path) -> None:
    request = recorded(
        tmp_path,
        line("A1", "r0", X),
        line("A1", "r1", Y),
        line("A1", "r0", X, 2),
        line("B1", "r0", Y),
        line("B1", "r0", None, 2),
        '{"arm": "basel',
    )

    assert [start.name for start in request.starts] == ["A1", "B1"]
    assert (request.passes, request.unreadable) == (2, 1)
    assert [len(start.digests) for start in request.starts] == [2, 1]
    assert request.kind is DifferenceKind.CHANGED


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"compare": "words"}, DifferenceKind.EQUAL),
        ({"compare": "numbers", "limit": "0.25 nat"}, DifferenceKind.EQUAL),
        ({"compare": "numbers", "limit": "0.1 nat"}, DifferenceKind.CHANGED),
        ({"compare": "numbers"}, DifferenceKind.CHANGED),
        ({}, DifferenceKind.CHANGED),
        ({"compare": "what?"}, DifferenceKind.CHANGED),
    ],
)
def test_a_request_is_judged_at_the_level_of_its_run(
    tmp_path: Path, settings: dict[str, str], kind: DifferenceKind
) -> None:
    moved = answer("a", "x")
    moved["choices"][0]["logprobs"]["token_logprobs"] = [-0.25, -0.90]
    lines = []
    for name, output in (("A1", X), ("B1", moved)):
        levels = level_digests(output)
        sample = {**json.loads(line(name, "r0", output)), "words_digest": levels.words}
        lines.append(json.dumps(sample) + "\n")
    run = write_run(tmp_path / "run", *lines)
    write_identity(run, RunIdentity(requests="0", hashes={}, settings=settings))
    assert read_request(run, "r0").kind is kind


def test_the_answer_to_a_control_is_no_answer_to_a_request(tmp_path: Path) -> None:
    control = line("A1", "control:r0", Y, 0)
    run = write_run(tmp_path / "run", line("A1", "r0", X), control, line("B1", "r0", X))

    request = read_request(run, "r0")

    assert (request.kind, request.unreadable) == (DifferenceKind.EQUAL, 0)
    with pytest.raises(UsageError, match="never sent a request"):
        read_request(run, "control:r0")


def test_a_line_with_half_a_surrogate_pair_is_read(tmp_path: Path) -> None:
    assert recorded(tmp_path, line("A1", "r0", answer("\ud800", "x"))).unreadable == 0


@pytest.mark.parametrize(
    ("ids", "hint"),
    [
        (["request-1"], "did you mean `request-1`?"),
        (["a", "b"], "known names: a, b"),
        ([f"n{n}" for n in range(11)], "it sent 11 requests: n0, n1, n2, n3, n4 and 6 more"),
    ],
)
def test_an_unknown_request_gets_a_hint(tmp_path: Path, ids: list[str], hint: str) -> None:
    run = write_run(tmp_path / "run", *(line("A1", each, X) for each in ids))

    with pytest.raises(UsageError) as raised:
        read_request(run, "request-2")

    assert raised.value.hint == hint


def test_a_directory_without_samples_and_an_empty_file_are_errors_of_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no samples of a run"):
        read_request(tmp_path, "r0")
    with pytest.raises(UsageError, match="holds no sample"):
        read_request(write_run(tmp_path / "run"), "r0")


@pytest.mark.parametrize(
    "output",
    [
        {"choices": [{"message": ["a"]}]},
        {"choices": [{"message": {"tool_calls": 5}}]},
        {"choices": 5},
        {"choices": [{"text": 5}]},
        {},
    ],
)
def test_what_has_the_shape_of_no_answer_is_unreadable(
    tmp_path: Path, output: dict[str, Any]
) -> None:
    request = recorded(tmp_path, line("A1", "r0", output), line("A2", "r0", X))
    assert [start.name for start in request.starts] == ["A2"]
    assert request.unreadable == 1


@pytest.mark.parametrize("number", [0, -1, 10**9])
def test_a_pass_that_cannot_be_is_unreadable(tmp_path: Path, number: int) -> None:
    request = recorded(tmp_path, line("A1", "r0", X, number), line("A2", "r0", X))
    assert request.unreadable == 1


def recorded(directory: Path, *lines: str) -> RecordedRequest:
    return read_request(write_run(directory / "run", *lines), "r0")


def test_named_starts_are_shown_even_if_they_agree(run: Path) -> None:
    pair = choose_pair(read_request(run, "r0"), ("A1", "A2"))

    assert pair is not None
    assert pair.left == pair.right


def test_one_start_shows_its_first_pass_that_differs(tmp_path: Path) -> None:
    lines = [line("A1", "r0", each, number) for number, each in enumerate((X, X, Y), start=1)]
    request = recorded(tmp_path, *lines)

    for names in ((), ("A1",)):
        pair = choose_pair(request, names)
        assert pair is not None
        assert names_of(pair) == ("A1 pass 1", "A1 pass 3")


def test_nothing_is_chosen_if_all_answers_are_the_same(tmp_path: Path) -> None:
    assert choose_pair(recorded(tmp_path, line("A1", "r0", X), line("B1", "r0", X))) is None


@pytest.mark.parametrize(
    ("name", "hint"), [("B2", "known names: A1, B1"), ("a1", "archived starts are not in")]
)
def test_an_unknown_start_is_an_error_of_usage(tmp_path: Path, name: str, hint: str) -> None:
    request = recorded(tmp_path, line("A1", "r0", X), line("B1", "r0", X))

    with pytest.raises(UsageError) as raised:
        choose_pair(request, (name,))

    assert hint in str(raised.value.hint)
