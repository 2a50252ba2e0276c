# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ci_doctor.correctness.localise.localisation import Localisation
from ci_doctor.correctness.localise.report import localisation_facts, with_localisation
from ci_doctor.model.finding import Finding, RemedyKind, Severity
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.table_layout import table_lines
from tests.unit.correctness.experiments import result
from tests.unit.correctness.localise.subjects import of_experiment, searched, subject

ARGV = ("correctness", "--candidate", "serve {port}", "--report-dir", "out")
FIRST = Finding(rule="correctness/regression", severity=Severity.ERROR, summary="r0 differs")
LAST = Finding(rule="correctness/killed", severity=Severity.NOTE, summary="a process was killed")


def long_prompts(prompt: str, _concurrency: int, _before: Sequence[str]) -> bool:
    return len(prompt) > 20


def reported(found: Localisation) -> tuple[Outcome, list[str]]:
    """The outcome, and the lines of its table."""
    before = Outcome(verdict=Verdict.REGRESSION, summary="r0 differs", findings=(FIRST, LAST))
    after = with_localisation(before, found, ARGV, "out", Path("/reports"))
    (table,) = after.tables
    return after, list(table_lines(table, 90))


def localised(**changes: Any) -> Localisation:
    results = searched(subject(), long_prompts, first_pass=True, pairs=6)
    fields: dict[str, Any] = {
        "subject": subject(),
        "results": results,
        "starts": (result("A5", "one"), result("B7", "one")),
        "requests_file": "localise/smallest-request.jsonl",
        **changes,
    }
    return Localisation(**fields)


def test_the_smallest_condition_stands_beside_the_verdict_with_a_command() -> None:
    outcome, lines = reported(localised())
    assert outcome.verdict is Verdict.REGRESSION
    first, finding, last = outcome.findings
    assert (first, last) == (FIRST, LAST)
    assert finding.summary == (
        "of what was tried, the smallest condition that still differs: r0 alone, first 32 of 64 characters, one pass"
    )
    assert finding.remedy_kind is RemedyKind.COMMAND
    assert finding.remedy == (
        "ci-doctor correctness --candidate 'serve {port}' "
        "--requests out/localise/smallest-request.jsonl --concurrency 1 --passes 1 "
        "--report-dir out-smallest --no-localise"
    )
    assert finding.evidence[0].excerpt == ("equal: r0 alone, first 16 of 64 characters, one pass")
    assert [attachment.path for attachment in outcome.attachments] == ["localise/samples.jsonl"]
    text = "\n".join(lines)
    # Lengths far from the border, and what is larger than the smallest, tell nothing.
    assert "first 8 of" not in text
    assert "second pass" not in text.replace("4 at once, second pass", "")
    assert any(line.split() == ["all", "5", "requests,", "4", "at", "once,", "one", "pass", "differs", "0", "of", "5", "24"] for line in lines)  # fmt: skip


def test_what_only_a_start_with_other_prompts_has_shown_is_not_in_the_report() -> None:
    results = searched(subject(), long_prompts, first_pass=True, pairs=2)
    outcome, lines = reported(
        localised(results=results, stopped="the limit of 4 starts is reached")
    )
    finding = outcome.findings[1]
    assert finding.summary.endswith("r0 alone, first 32 of 64 characters, one pass")
    assert not any("first 16 of" in line for line in lines)
    assert any("the search ended early: the limit of 4 starts" in line for line in lines)


def test_without_a_start_there_is_no_claim_and_a_command_to_try() -> None:
    results = of_experiment(subject(), first_pass=True)
    found = localised(results=results, starts=(), stopped="the budget ended", requests_file=None)
    outcome, _ = reported(found)
    finding = outcome.findings[1]
    assert finding.summary == "where r0 differs is not known: the budget ended"
    assert "--only r0 --concurrency 1 --passes 1" in str(finding.remedy)
    assert not outcome.attachments
    facts = localisation_facts(found, ARGV, "out", Path("/reports"))
    assert (facts.command, facts.stopped) == (None, "the budget ended")


def never(_prompt: str, _concurrency: int, _before: Sequence[str]) -> bool:
    return False


def test_where_only_some_pairs_differ_equal_may_be_chance() -> None:
    flaky = subject(differing_pairs=2, pairs=4)
    results = searched(flaky, never, first_pass=True)
    outcome, lines = reported(localised(subject=flaky, results=results))
    assert outcome.findings[1].summary == (
        "no smaller condition differs in one pair of starts, which may be chance"
    )
    text = " ".join(" ".join(lines).split())
    assert "r0 differs in 2 of 4 pairs of starts: `equal` in one pair may be chance" in text


def test_programs_get_every_condition_and_every_start() -> None:
    facts = localisation_facts(localised(), ARGV, "out", Path("/reports"))
    assert facts.smallest == "r0 alone, first 32 of 64 characters, one pass"
    assert facts.confirmed
    assert [(each.prefix, each.result) for each in facts.conditions if each.passes == 1 and each.request] == [
        (1, "equal"), (2, "equal"), (4, "equal"), (8, "equal"), (16, "equal"), (32, "differs"), (None, "differs"),
    ]  # fmt: skip
    assert [(each.start, each.log) for each in facts.starts] == [
        ("A5", "logs/A5/vllm-1.log"),
        ("B7", "logs/B7/vllm-1.log"),
    ]
