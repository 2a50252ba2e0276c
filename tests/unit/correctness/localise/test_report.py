# SPDX-License-Identifier: Apache-2.0
import re
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.correctness.localise.report import localisation_facts, with_localisation
from ci_doctor.correctness.localise.trials import Localisation, TrialResult, one_by_one
from ci_doctor.model.outcome import Finding, Outcome, RemedyKind, Severity, Verdict
from ci_doctor.render.layout import table_lines
from tests.unit.correctness.experiments import result
from tests.unit.correctness.localise.subjects import localised, sends_of, subject

ARGV = ("correctness", "--candidate", "serve {port}", "--report-dir", "out")
FIRST = Finding(rule="correctness/regression", severity=Severity.ERROR, summary="r0 differs")
LAST = Finding(rule="correctness/killed", severity=Severity.NOTE, summary="a process was killed")


@cache
def long() -> Localisation:
    """A search that ended; made for the first test that asks, as each worker imports this file."""
    ended = localised(subject(["r1"]), lambda _b, x, _w: len(x["prompt"]) > 90, pairs=6)
    rivals = ("prompts of 23 tokens or more differ",)
    return replace(ended, conclusion=replace(ended.conclusion, rivals=rivals))


def reported(found: Localisation) -> tuple[Outcome, list[str]]:
    """The outcome, and the lines of its table."""
    before = Outcome(verdict=Verdict.REGRESSION, summary="r0 differs", findings=(FIRST, LAST))
    after = with_localisation(before, found, ARGV, "out", Path("/reports"))
    (table,) = after.tables
    return after, list(table_lines(table, 90))


def test_the_cause_stands_beside_the_verdict_with_a_command() -> None:
    starts = (result("A5", "one"), result("B7", "one"))
    outcome, lines = reported(replace(long(), starts=starts))
    assert outcome.verdict is Verdict.REGRESSION
    first, finding, last = outcome.findings
    assert (first, last) == (FIRST, LAST)
    cause = long().conclusion.cause or ""
    assert re.fullmatch(r"prompts of \d+ characters or more differ( \(\d+: equal\))?", cause)
    other = "prompts of 23 tokens or more differ"
    assert finding.summary == f"where it differs: {cause}; or: {other}"
    assert finding.remedy_kind is RemedyKind.COMMAND
    assert finding.remedy == (
        "ci-doctor correctness --candidate 'serve {port}' --only r1 --concurrency 1 --passes 1 "
        "--report-dir out-smallest --no-localise"
    )
    exam = long().conclusion.exam
    assert min(exam.differing, exam.equal) > 0
    sends = exam.differing + exam.equal
    # The first two starts of each search are always the same: no cause has foretold them.
    assert exam.differing <= sum(len(each.differing) for each in long().results[2:])
    assert sends <= sum(each.compared for each in long().results[2:])
    assert str(finding.evidence[0].excerpt).splitlines() == [
        "differs: r1 alone",
        "equal: r1, first 68 of 136 characters alone",
        f"foretold for {sends} later sends, {exam.differing} of them to differ, and so it was",
        f"what fits all of this: {cause}",
        "what fits as well: prompts of 23 tokens or more differ",
    ]
    assert [attachment.path for attachment in outcome.attachments] == ["localise/samples.jsonl"]
    cells = [line.split() for line in lines]
    assert ["r1", "alone", "differs", "the", "last"] in cells
    assert any("1 of 7 in the same way" in " ".join(line) for line in cells)
    # At 80 columns too, what a row says stands beside it.
    (table,) = outcome.tables
    assert not [line for line in table_lines(table, 80) if line.split() == ["1"]]


def test_without_a_start_there_is_no_claim_and_a_command_to_try() -> None:
    found = Localisation(subject=subject(), stopped="the budget ended")
    outcome, _ = reported(found)
    finding = outcome.findings[1]
    assert finding.summary == "where r0 differs is not known: the budget ended"
    assert "--only r0 --concurrency 1 --passes 1" in str(finding.remedy)
    assert not outcome.attachments
    facts = localisation_facts(found, ARGV, "out", Path("/reports"))
    assert (facts.command, facts.stopped) == (None, "the budget ended")


def test_where_only_some_pairs_differ_equal_may_be_chance() -> None:
    some = subject(differing_pairs=2, pairs=4)
    outcome, lines = reported(localised(some, lambda _b, _x, _w: False))
    assert outcome.findings[1].summary == (
        "no smaller condition differs in one pair of starts, which may be chance"
    )
    text = " ".join(" ".join(lines).split())
    assert "r0 differs in 2 of 4 pairs of starts: `equal` in one pair may be chance" in text


def test_programs_get_the_cause_every_trial_and_every_start() -> None:
    starts = (result("A5", "one"), result("B7", "one"))
    facts = localisation_facts(replace(long(), starts=starts), ARGV, "out", Path("/reports"))
    assert facts.cause == long().conclusion.cause
    assert facts.smallest == "r1 alone"
    assert facts.without == ("r1, first 68 of 136 characters alone",)
    _, every, *_ = facts.conditions
    assert every.sent == tuple((f"r{number}",) for number in range(7)) * 2
    assert (every.result, every.differing, every.compared) == ("differs", (2, 9), 14)
    assert [(each.start, each.log) for each in facts.starts] == [
        ("A5", "logs/A5/vllm-1.log"),
        ("B7", "logs/B7/vllm-1.log"),
    ]


def test_what_fits_and_was_not_tested_is_no_cause() -> None:
    found = replace(long(), conclusion=replace(long().conclusion, rivals=(), is_tested=False))
    outcome, _ = reported(found)
    cause = long().conclusion.cause
    summary = f"not tested on later sends, what fits all that was sent: {cause}"
    assert outcome.findings[1].summary == summary
    facts = localisation_facts(found, ARGV, "out", Path("/reports"))
    assert (facts.cause, facts.untested) == (None, cause)


def test_the_last_send_has_one_name_in_all_rows() -> None:
    of_two = TrialResult(
        trial=one_by_one(["r1", "r2"]),
        sends=tuple(sends_of(("r1", False, ""), ("r2", True, ""))),
    )
    _, lines = reported(replace(long(), results=(of_two,)))
    assert "1 of 2 (the last)" in " ".join(lines)


def test_what_the_rates_show_stands_below_the_cause_and_not_beside_it() -> None:
    conclusion = replace(long().conclusion, by_rate="requests differed only after a pause")
    outcome, lines = reported(replace(long(), conclusion=conclusion))
    assert "after a pause" not in outcome.findings[1].summary
    assert "what the rates show: requests differed only after a pause" in " ".join(lines)
