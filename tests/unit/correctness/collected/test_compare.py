# SPDX-License-Identifier: Apache-2.0
"""The library entry of `compare`, and what its outcome holds."""

import json
from pathlib import Path

import pytest

from ci_doctor.correctness.collected.compare import (
    SAME,
    CompareRequest,
    collected_experiment,
    compare,
    judge,
    read_again,
)
from ci_doctor.correctness.collected.survey import Survey, survey
from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.settings import (
    AnswerLevel,
    Comparison,
    Rules,
    StartOrder,
    read_comparison,
)
from ci_doctor.errors import UsageError
from ci_doctor.model.facts import Facts
from ci_doctor.model.facts.correctness import CompareFacts
from ci_doctor.model.outcome import CaseOutcome, Outcome, Severity, Verdict
from tests.support.tables import lines_of
from tests.unit.correctness.collected.sample_files import files, response, responses, write


def of_files(baseline: Path, candidate: Path) -> Outcome:
    return compare(CompareRequest(baseline=str(baseline), candidate=str(candidate)))


def compared(directory: Path, left: str, right: str) -> Outcome:
    a = write(directory / "a.jsonl", responses(left))
    b = write(directory / "b.jsonl", responses(right))
    return of_files(a, b)


def test_equal_files_pass_without_a_finding_and_say_so_in_bytes(tmp_path: Path) -> None:
    outcome = compared(tmp_path, "x y", "x y")

    assert (outcome.verdict, outcome.findings) == (Verdict.PASS, ())
    assert [case.outcome for case in outcome.cases] == [CaseOutcome.PASSED] * 2
    assert outcome.summary == (
        "all 2 answers are the same, byte for byte, in 1 baseline and 1 candidate starts"
    )


def test_the_evidence_is_a_table(tmp_path: Path) -> None:
    (table,) = compared(tmp_path, "x y", "x z").tables

    assert [row.label for row in table.rows] == [
        "baseline", "candidate", "aligned", "starts", "answered", "clusters", "differing",
        "requests", "kind", "first at", "to go on",
    ]  # fmt: skip
    lines = lines_of(table)
    assert lines[2:8] == [
        "aligned    by id",
        "starts     A1 | B1",
        "answered   2/2 each",
        "clusters   {A1}  {B1}",
        "differing  A/B 1   of 2 requests",
        "requests   2 stable (1 equal, 1 changed)",
    ]


def test_a_difference_is_a_finding_at_its_line(tmp_path: Path) -> None:
    (finding,) = compared(tmp_path, "x old", "x new").findings

    assert (finding.rule, finding.severity) == ("correctness/inconclusive", Severity.WARNING)
    assert finding.summary.startswith("c-1: the baseline is always the same")
    (evidence,) = finding.evidence
    assert (evidence.file, evidence.line) == (str(tmp_path / "b.jsonl"), 2)
    assert evidence.excerpt == (
        "request c-1: A1 against B1, character 4 of text\n  A1  the [old]\n  B1  the [new]"
    )


def test_requests_without_an_answer_are_a_finding_for_each_start(tmp_path: Path) -> None:
    outcome = compared(tmp_path, "x y", "x -")
    (finding,) = [each for each in outcome.findings if each.rule == "correctness/unanswered"]

    assert finding.summary == "1 of 2 requests was not answered in B1"
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


def test_a_missing_file_is_an_error_of_usage_even_beside_an_empty_one(tmp_path: Path) -> None:
    empty = write(tmp_path / "a.jsonl", [])

    with pytest.raises(UsageError, match="no such file"):
        of_files(empty, tmp_path / "gone")


def collected(directory: Path, order: str, *, texts: dict[str, str], clock: bool = True) -> Outcome:
    """Starts in that order of time: each is a file of response objects, and answers with its arm's text."""
    for number, letter in enumerate(order):
        created = 1_000 + 60 * number if clock else 0
        line = {**response("r0", texts[letter]), "created": created}
        write(directory / letter / f"{number:03}.jsonl", [line])
    return of_files(directory / "A", directory / "B")


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


def test_a_time_beyond_a_double_is_no_time(tmp_path: Path) -> None:
    sides = []
    for arm, word in (("A", "bay"), ("B", "cod")):
        line = {**response("c-0", f"ash {word}"), "created": 10**400}
        sides.append(write(tmp_path / f"{arm}.jsonl", [line]))
    assert of_files(*sides).verdict is Verdict.INCONCLUSIVE


def ours(arm: str, **fields: object) -> str:
    """A sample of a run, as one line of its file."""
    output = {"choices": [{"index": 0, "text": "ash", "finish_reason": "stop"}]}
    line = {"arm": arm, "start": 1, "pass": 1, "id": "r0", "output": output, **fields}
    return json.dumps(line) + "\n"


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({**response("c-0", "ash"), "prompt_token_ids": [7]}) + "\n",
        ours("baseline", prompt_facts={"prompt_token_ids": [7]}),
    ],
    ids=["responses", "ours"],
)
def test_prompt_facts_beyond_a_double_make_no_answer(tmp_path: Path, line: str) -> None:
    a, b = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    for path in (a, b):
        path.write_text(line.replace("[7]", "[1e999]"))
    outcome = of_files(a, b)
    assert outcome.verdict is Verdict.VOID


def test_a_broken_line_of_a_file_of_both_arms_is_missed_in_the_arm_that_is_compared(
    tmp_path: Path,
) -> None:
    lines = [ours(arm) for arm in ("baseline", "candidate")]
    baseline, both = tmp_path / "a.jsonl", tmp_path / "both.jsonl"
    baseline.write_text(lines[0])
    # What broke may have been a second start of the candidate.
    both.write_text("".join([*lines, lines[1][:-41], "\n"]))
    outcome = of_files(baseline, both)
    assert outcome.verdict is Verdict.VOID


COMPARISONS = [Comparison(level=level) for level in AnswerLevel]
NEAR = read_comparison(AnswerLevel.NUMBERS, "0.25 nat")
NEARER = read_comparison(AnswerLevel.NUMBERS, "0.125 nat")


def outcome_of(
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
    made = outcome_of(tmp_path, comparison, number=-1.25)
    assert made.verdict is verdict
    assert isinstance(made.facts, CompareFacts)
    words, tokens, numbers = made.facts.levels
    assert (words.verdict, tokens.verdict) == ("pass", "pass")
    assert (numbers.apart, numbers.largest_nat) == (1, 0.25)
    assert numbers.verdict == ("pass" if comparison is NEAR else "inconclusive")
    assert [table.title for table in made.tables] == ["Evidence", "Levels"]


@pytest.mark.parametrize("comparison", [*COMPARISONS, NEAR])
def test_whatever_the_gate_compares_equal_files_pass_at_every_level_and_other_words_do_not(
    tmp_path: Path, comparison: Comparison
) -> None:
    assert outcome_of(tmp_path, comparison, text="b").verdict is Verdict.INCONCLUSIVE
    made = outcome_of(tmp_path, comparison)
    assert made.verdict is Verdict.PASS
    assert isinstance(made.facts, CompareFacts)
    assert {each.verdict for each in made.facts.levels} == {"pass"}


# --- the experiment that samples are, its decision, its differences ---


def made(directory: Path, baseline: list[str], candidate: list[str]) -> tuple[Survey, Experiment]:
    """Starts with these answers, a file each."""
    read = survey(*files(directory, baseline, candidate))
    order = range(len(read.starts))
    return read, collected_experiment(
        read, order, Rules(order=StartOrder.EXCHANGEABLE), Comparison()
    )


def test_what_is_the_same_everywhere_is_not_read_again(tmp_path: Path) -> None:
    read, experiment = made(tmp_path, ["x y w"], ["x y z"])
    one, other = experiment.results

    assert one.start.answers["c-1"] == other.start.answers["c-1"] == SAME
    assert one.start.answers["c-2"] != other.start.answers["c-2"]
    # The first proves what the others rest on.
    assert read_again(read) == ["c-2", "c-0"]
    output = experiment.outputs[other.digests["c-2"][1]]
    assert output == {"choices": [{"index": 0, "text": "the z", "finish_reason": "length"}]}


def test_an_id_that_comes_twice_proves_nothing(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [response("c-0", "x"), response("c-0", "x")])
    b = write(tmp_path / "b", responses("x"))
    outcome = of_files(a, b)

    assert outcome.verdict is Verdict.VOID
    assert (
        outcome.summary
        == f"{a} answers the request c-0 twice in one start: in line 1 and in line 2"
    )


ASKED = {"id": "r0", "prompt": "p" * 50, "text": "x"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"prompt": "p" * 49 + "q"}, "different prompts"),
        ({"prompt": ["p"]}, "different prompts"),
        ({"finish_reason": "abort"}, "0 of 1"),
        ({"meta_info": {"finish_reason": {"type": "abort"}}}, "0 of 1"),
        ({"finish_reason": "stop"}, None),
    ],
)
def test_a_row_says_what_was_asked_and_how_its_answer_ended(
    tmp_path: Path, changes: dict[str, object], why: str | None
) -> None:
    a = write(tmp_path / "a", [ASKED | changes] if why == "0 of 1" else [ASKED])
    b = write(tmp_path / "b", [ASKED | changes])
    outcome = of_files(a, b)

    assert outcome.verdict is (Verdict.PASS if why is None else Verdict.VOID)
    assert (why or "the same") in outcome.summary


def test_a_broken_line_is_shown_in_its_own_file(tmp_path: Path) -> None:
    rows = [{"id": "r0", "text": "x"}, {"id": "r1", "text": "y"}]
    a = write(tmp_path / "a", rows)
    b = tmp_path / "b"
    b.write_bytes(a.read_bytes() + '{"id": "r2"'.encode("utf-16"))
    outcome = of_files(a, b)

    (finding,) = [
        each
        for each in outcome.findings
        if each.rule == "correctness/unanswered" and "B1" in each.summary
    ]
    assert [(each.file, each.line) for each in finding.evidence] == [(str(b), 3)]
    assert "no text in UTF-8" in str(finding.evidence[0].excerpt)


@pytest.mark.parametrize(
    ("baseline", "candidate", "verdict"),
    [
        (["x y", "x z"], ["x y"], Verdict.FLAKY),
        (["x y"] * 5, ["x z"] * 3, Verdict.REGRESSION),
        (["x -"], ["x -"], Verdict.VOID),
    ],
)
def test_collected_samples_get_the_verdict_of_an_experiment(
    tmp_path: Path, baseline: list[str], candidate: list[str], verdict: Verdict
) -> None:
    assert judge(*made(tmp_path, baseline, candidate)).verdict is verdict


def test_an_undecided_comparison_says_how_many_starts_would_settle_it(tmp_path: Path) -> None:
    settle = judge(*made(tmp_path, ["x"], ["y"])).settle

    assert settle is not None
    assert settle.startswith("collect 6 baseline and 3 candidate starts")
    silent = judge(*made(tmp_path, ["x"], ["-"])).settle
    assert silent == "see why the candidate answered nothing, and collect its answers anew"


def test_a_comparison_of_answers_that_notices_nothing_is_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_doctor.correctness.collected.compare.canary_detected", lambda *_: False)
    assert compared(tmp_path, "x y", "x y").verdict is Verdict.VOID


def test_the_mark_at_the_beginning_of_a_file_is_no_part_of_it_and_utf_16_proves_nothing(
    tmp_path: Path,
) -> None:
    a, b = write(tmp_path / "a", [{"id": "r0", "text": "x"}]), tmp_path / "b"
    b.write_text(a.read_text(), "utf-8-sig")
    assert of_files(a, b).verdict is Verdict.PASS
    b.write_text(a.read_text(), "utf-16")
    outcome = of_files(a, b)
    assert (outcome.verdict, outcome.summary) == (Verdict.VOID, f"{b} is UTF-16: write it in UTF-8")
