# SPDX-License-Identifier: Apache-2.0
from msgspec.structs import replace

from ci_doctor.correctness.report.differences import differences
from ci_doctor.correctness.report.findings import findings, replay_command
from ci_doctor.correctness.results import Experiment, ExperimentEnding
from ci_doctor.correctness.settings import Rules
from ci_doctor.model.finding import Finding, Severity
from tests.unit.correctness.experiments import context, decided, experiment, first_look, result


def found(made: Experiment, count: int = 2) -> list[Finding]:
    decision = decided(made, count)
    shown = differences(made, decision, [f"r{index}" for index in range(count)])
    return list(findings(made, decision, shown, context(count)))


def test_a_pass_has_nothing_to_tell() -> None:
    assert found(experiment(result("A1", "x x"), result("B1", "x x"))) == []


def test_a_regression_names_its_requests_and_the_command_that_shows_one() -> None:
    (finding,) = found(experiment(*first_look("same two", "same three")))
    assert (finding.rule, finding.severity) == ("correctness/regression", Severity.ERROR)
    assert finding.summary == "r1: no candidate start answers as a baseline start does"
    assert finding.remedy == (
        "ci-doctor correctness replay --run ci-doctor-report --request r1 --starts A1,B1"
    )
    (evidence,) = finding.evidence
    assert (evidence.file, evidence.line) == ("prompts.jsonl", 2)
    assert evidence.excerpt is not None
    assert "[wo]" in evidence.excerpt


def test_many_requests_are_not_all_named() -> None:
    (finding,) = found(experiment(*first_look("x " * 9, "y " * 9)), 9)
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
    names = [each.start.name for each in first_look("x", "y")]
    words = ("one", "two", "three", "four", "u", "v", "w", "x", "y")
    starts = [result(name, f"{word} same") for name, word in zip(names, words, strict=True)]
    (finding,) = found(experiment(*starts, ending=ExperimentEnding.COMPLETE))

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


def test_an_extended_run_says_what_alpha_no_longer_holds() -> None:
    made = experiment(result("A1", "x x"), result("B1", "x x"))
    made = replace(made, rules=Rules(max_starts=40, earlier_max_starts=(16,)))
    (finding,) = found(made)
    assert finding.rule == "correctness/extended"
    assert finding.summary == (
        "the run was extended from 16 to 40 starts: a false regression has a probability of at most "
        "5 %, not 2.5 %"
    )


def test_a_mix_that_changed_is_no_answer_that_is_never_given() -> None:
    starts = first_look("same two", "same three")
    starts[-1] = result("B6", "same two")
    made = experiment(*starts, ending=ExperimentEnding.BUDGET)
    shown = [each.summary for each in found(made) if each.rule == "correctness/inconclusive"]
    assert shown == ["r1: the candidate gives other answers than the baseline, or in another mix"]
