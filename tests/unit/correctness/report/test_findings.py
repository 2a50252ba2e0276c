# SPDX-License-Identifier: Apache-2.0
from msgspec.structs import replace

from ci_doctor.correctness.report.differences import differences
from ci_doctor.correctness.report.findings import findings, replay_command
from ci_doctor.correctness.results import Experiment, ExperimentEnding, StartResult
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.services.outcome import FailureKind
from tests.unit.correctness.experiments import DEATH, context, decided, experiment, result


def found(made: Experiment, count: int = 2) -> list[Finding]:
    decision = decided(made, count)
    shown = differences(made, decision, [f"r{index}" for index in range(count)])
    return list(findings(made, decision, shown, context(count)))


def regression(baseline: str, candidate: str) -> list[StartResult]:
    """Enough starts for a verdict."""
    return [
        *(result(f"A{number}", baseline) for number in range(1, 6)),
        *(result(f"B{number}", candidate) for number in range(1, 4)),
    ]


def test_a_pass_has_nothing_to_tell() -> None:
    assert found(experiment(result("A1", "x x"), result("B1", "x x"))) == []


def test_a_regression_names_its_requests_and_the_command_that_shows_one() -> None:
    (finding,) = found(experiment(*regression("same two", "same three")))
    assert (finding.rule, finding.severity) == ("correctness/regression", Severity.ERROR)
    assert finding.summary == "r1: no candidate start gives an answer of the baseline"
    assert finding.remedy == (
        "ci-doctor correctness replay --run ci-doctor-report --request r1 --starts A1,B1"
    )
    (evidence,) = finding.evidence
    assert (evidence.file, evidence.line) == ("prompts.jsonl", 2)
    assert evidence.excerpt is not None
    assert "[wo]" in evidence.excerpt


def test_many_requests_are_not_all_named() -> None:
    (finding,) = found(experiment(*regression("x " * 9, "y " * 9)), 9)
    assert finding.summary.startswith("r0, r1, r2 and 6 more: ")
    assert len(finding.evidence) == 3


def test_a_candidate_that_dies_every_time_is_to_blame_with_its_logs_lines() -> None:
    results = [result("A1", "x x"), result("B1", "- -", failure=DEATH, errors={})]
    results += [result("A2", "x x"), result("B2", "- -", failure=DEATH, errors={})]
    results += [result("A3", "x x"), result("B3", "- -", failure=DEATH, errors={})]
    verdict, death = found(experiment(*results))
    assert verdict.remedy == "ci-doctor correctness --only ID"
    assert (death.rule, death.severity) == ("correctness/service-died", Severity.ERROR)
    assert death.summary == f"candidate (B1, B2, B3): {DEATH.message}"
    assert (death.evidence[0].line, death.evidence[0].excerpt) == (7, "RuntimeError: no")


def test_a_baseline_that_dies_is_a_warning() -> None:
    rules = {
        each.rule: each.severity for each in found(experiment(result("A1", "- -", failure=DEATH)))
    }
    assert rules["correctness/service-died"] is Severity.WARNING
    assert rules["correctness/infra"] is Severity.WARNING


def test_what_the_budget_cut_short_is_shown_and_blamed_on_nobody() -> None:
    not_ready = replace(
        DEATH, kind=FailureKind.NOT_READY, message="vllm was not ready within 9 s: HTTP status 503"
    )
    made = experiment(
        result("A1", "- -", failure=not_ready, cut_short=True, errors={}),
        ending=ExperimentEnding.BUDGET,
    )
    by_rule = {each.rule: each for each in found(made)}
    assert list(by_rule) == [
        "correctness/void",
        "correctness/service-not-ready",
        "correctness/budget-spent",
    ]
    assert "A1, cut short by the budget" in by_rule["correctness/service-not-ready"].summary


def test_unanswered_requests_are_told_once_for_starts_that_are_alike() -> None:
    made = experiment(*(result(f"{arm}{number}", "x -") for number in (1, 2) for arm in "AB"))
    (finding,) = [each for each in found(made) if each.rule == "correctness/unanswered"]
    assert finding.summary == "1 of 2 requests were not answered in A1, B1, A2, B2"
    assert [(each.line, each.excerpt) for each in finding.evidence] == [(2, "r1: HTTP 500")]


def test_processes_that_had_to_be_killed_and_empty_answers_are_noted() -> None:
    silent = result("B1", "x x")
    silent = replace(silent, start=replace(silent.start, empty=1), killed=("vllm (42)",))
    notes = [
        each
        for each in found(experiment(result("A1", "x x"), silent))
        if each.severity is Severity.NOTE
    ]
    assert [note.rule for note in notes] == ["correctness/empty-answers", "correctness/killed"]
    assert "vllm (42) in B1" in notes[1].summary


def test_a_void_run_says_why_it_is_void_also_where_answers_differ() -> None:
    unproven = result("B1", "y same")
    unproven = replace(
        unproven, start=replace(unproven.start, proof_missing=("/metrics has no `hits`",))
    )
    finding = found(experiment(result("A1", "x same"), unproven, result("A2", "x same")))[0]
    assert finding.rule == "correctness/void"
    assert "/metrics has no `hits`" in finding.summary


def test_where_bytes_cannot_be_compared_the_coverage_that_remains_and_the_way_out_are_told() -> (
    None
):
    words = ("one", "two", "three", "x", "y", "z")
    names = ("A1", "A2", "A3", "A4", "A5", "B1")
    (finding,) = found(
        experiment(*(result(name, f"{word} same") for name, word in zip(names, words, strict=True)))
    )

    assert (finding.rule, finding.severity) == ("correctness/nondeterministic", Severity.WARNING)
    assert "1 of 2" in finding.summary
    assert finding.remedy is not None
    assert "soft_fail: [{exit_status: 85}]" in finding.remedy


def test_requests_that_were_told_to_come_again_later_are_counted_by_start() -> None:
    made = experiment(result("A1", "x x"), result("B1", "x x", throttled=2))
    (note,) = found(made)

    assert (note.rule, note.severity) == ("correctness/throttled", Severity.NOTE)
    assert note.summary == "requests were answered only after HTTP 429: 2 in B1"


def test_archived_starts_are_not_offered_for_a_replay() -> None:
    made = experiment(result("B1", "y same"))
    old = result("A1", "x same")
    made = replace(made, archived=(replace(old, start=replace(old.start, archived=True)),))
    (difference,) = differences(made, decided(made), ["r0", "r1"])

    assert replay_command(difference, context()) == (
        "ci-doctor correctness replay --run ci-doctor-report --request r0"
    )
