# SPDX-License-Identifier: Apache-2.0
from msgspec.structs import replace

from ci_doctor.correctness.report.differences import differences
from ci_doctor.correctness.report.findings import findings, replay_command
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.model.finding import Finding, Severity
from tests.unit.correctness.experiments import context, decided, experiment, result


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


def test_archived_starts_are_not_offered_for_a_replay() -> None:
    made = experiment(result("B1", "y same"))
    old = result("A1", "x same")
    made = replace(made, archived=(replace(old, start=replace(old.start, archived=True)),))
    (difference,) = differences(made, decided(made), ["r0", "r1"])

    assert replay_command(difference, context()) == (
        "ci-doctor correctness replay --run ci-doctor-report --request r0"
    )
