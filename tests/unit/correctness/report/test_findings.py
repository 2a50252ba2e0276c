# SPDX-License-Identifier: Apache-2.0
"""Why the starts of an arm failed: the headline of a verdict that rests on no answers."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.report.differences import differences
from ci_doctor.correctness.report.findings import (
    findings,
    remedy_of,
    replay_command,
    suspicious_answers,
    with_cause,
)
from ci_doctor.correctness.results import Experiment, ExperimentEnding
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.load.looks import LooksOfAnswers, count_prompts
from ci_doctor.load.requests import Request
from ci_doctor.model.cause import FailureClass
from ci_doctor.model.facts.launch import (
    FailureKind,
    LeftBehind,
    LeftKind,
    LeftThing,
    NamedProcess,
    StopResult,
)
from ci_doctor.model.outcome import Finding, Severity, Verdict
from tests.support.diagnoses import a_cause
from tests.unit.correctness.experiments import (
    DEATH,
    context,
    decided,
    experiment,
    first_look,
    result,
)

NAMED = replace(DEATH, cause=a_cause())
TAKEN = replace(DEATH, kind=FailureKind.OUTSIDE, log=None, message="port 8000 is owned by nginx")


def test_the_cause_stands_first_and_without_the_name_of_its_process() -> None:
    made = experiment(result("A1", "- -", failure=DEATH), result("A2", "- -", failure=NAMED))

    decision = with_cause(decided(made), made)

    assert decision.verdict is Verdict.FAILED
    assert decision.reason == (
        "program error: ValueError: 40 heads for 3 GPUs; the baseline failed in every start"
    )


@pytest.mark.parametrize(
    "failure",
    [
        DEATH,
        replace(NAMED, oom="its cgroup"),
        replace(NAMED, kind=FailureKind.NOT_READY),
        replace(DEATH, cause=a_cause(is_final=False)),
    ],
)
def test_without_a_cause_that_ended_it_the_end_itself_stands_first(failure: object) -> None:
    made = experiment(result("A1", "- -", failure=failure))

    assert with_cause(decided(made), made).reason.startswith(DEATH.message)


def test_what_the_machine_shows_stands_first() -> None:
    made = experiment(result("A1", "- -", failure=TAKEN, outside=True))

    decision = with_cause(decided(made), made)

    assert decision.verdict is Verdict.INFRA
    assert decision.reason.startswith("port 8000 is owned by nginx; the baseline")


def test_the_remedy_is_the_causes_own_and_promises_no_cure_by_a_retry() -> None:
    assert remedy_of(NAMED, Verdict.FAILED) == (
        "Begin at the innermost frame in your own code. Another run is useless: it fails again."
    )
    assert remedy_of(DEATH, Verdict.FAILED) == "less +7 /reports/logs/B1/vllm-1.log"


def requests(count: int, *, model: str | None = None, prompt: str = "p{}") -> list[Request]:
    body = {} if model is None else {"model": model}
    return [
        Request(id=f"r{n}", path="/", body={**body, "prompt": prompt.format(n)}, line=n + 1)
        for n in range(count)
    ]


def start(texts: Sequence[str], arm: Arm = Arm.BASELINE, model: str | None = None) -> ArmStart:
    looks = LooksOfAnswers()
    facts = {} if model is None else {"model": model}
    for number, text in enumerate(texts):
        looks.add(f"r{number}", {"choices": [{"index": 0, "text": text}]}, facts)
    return ArmStart(arm=arm, number=1, looks=looks.value())


def suspicions(starts: Sequence[ArmStart], asked: Sequence[Request]) -> list[tuple[str, str]]:
    findings = suspicious_answers(starts, asked, count_prompts(asked))
    return [(each.rule.removeprefix("correctness/"), each.summary) for each in findings]


def test_answers_that_differ_by_prompt_are_not_named() -> None:
    words = [f"word {number}" for number in range(40)]
    both = [start(words, model="m"), start(words, Arm.CANDIDATE, model="m")]
    assert suspicions(both, requests(40, model="m")) == []


@pytest.mark.parametrize("count", [3, 40])
def test_one_answer_for_many_prompts_is_named_once(count: int) -> None:
    starts = [start(["same"] * count), start(["same"] * count, Arm.CANDIDATE)]
    text = f"A1 gave one and the same answer to all {count} requests, of {count} different prompts"
    assert suspicions(starts, requests(count)) == [("one-answer", text)]


def test_one_answer_to_one_prompt_sent_many_times_is_no_wonder() -> None:
    assert suspicions([start(["same"] * 40)], requests(40, prompt="the same")) == []
    assert suspicions([start(["yes"] * 2)], requests(2)) == []


WORDS = ["word 0", "word 1", "word 2"]


@pytest.mark.parametrize(
    ("starts", "model", "rule", "text"),
    [
        (
            [start([" \n", "\t", "word"])],
            None,
            "blank-answers",
            "2 of 3 answers of A1 hold no word",
        ),
        (
            [start(WORDS, model="small")],
            "large",
            "other-model",
            "3 answers of A1 are of another model than requested: small for large",
        ),
        (
            [start(WORDS, model="one"), start(WORDS, Arm.CANDIDATE, model="other")],
            None,
            "other-model",
            "the arms name different models in 3 answers: one in the baseline, other in the candidate",
        ),
    ],
    ids=["white space alone", "another model than requested", "another model than the other arm's"],
)
def test_what_is_suspicious_is_named_with_its_count(
    starts: list[ArmStart], model: str | None, rule: str, text: str
) -> None:
    assert suspicions(starts, requests(3, model=model)) == [(rule, text)]


def never_works(**of_candidate: Any) -> Experiment:
    """A baseline of four good starts, and a candidate that answers nothing in five."""
    results = [result(f"A{number}", "x x") for number in range(1, 5)]
    results += [result(f"B{number}", "- -", **of_candidate) for number in range(1, 6)]
    return experiment(*sorted(results, key=lambda each: each.start.name[::-1]))


def test_a_candidate_that_dies_every_time_is_to_blame_with_its_logs_lines() -> None:
    verdict, death = found(never_works(failure=DEATH, errors={}))
    assert verdict.remedy == "less +7 /reports/logs/B1/vllm-1.log"
    assert (death.rule, death.severity) == ("correctness/service-died", Severity.ERROR)
    assert death.summary == f"candidate (B1, B2, B3, B4, B5): {DEATH.message}"
    assert (death.evidence[0].line, death.evidence[0].excerpt) == (7, "  RuntimeError: no")


def test_what_ended_a_candidate_that_never_works_stands_before_that_it_fails() -> None:
    made = never_works(failure=NAMED, errors={})

    decision = with_cause(decided(made), made)

    assert decision.verdict is Verdict.REGRESSION
    assert decision.reason == (
        "program error: ValueError: 40 heads for 3 GPUs; the candidate fails in 5 of 5 starts, and the "
        "baseline answered in 4 of 4"
    )


def test_the_line_that_names_the_cause_is_marked_in_the_excerpt() -> None:
    lines = tuple(f"line {number}" for number in range(20))
    _, death = found(never_works(failure=replace(DEATH, tail=lines, tail_root=15), errors={}))
    assert "> line 15" in (death.evidence[0].excerpt or "").splitlines()


def test_a_regression_without_an_answer_to_show_names_what_can_be_looked_at() -> None:
    named, *_ = found(never_works(failure=NAMED, errors={}))
    assert named.remedy == remedy_of(NAMED, Verdict.REGRESSION)
    unanswered, *_ = found(never_works(errors={"r 1": "HTTP 500"}))
    assert unanswered.remedy == "ci-doctor correctness --only 'r 1'"


UNSURE = replace(DEATH, cause=a_cause(class_=FailureClass.CUDA_ERROR))


def test_a_proven_regression_is_not_doubted_by_the_remedy_or_the_log_below_it() -> None:
    told = found(never_works(failure=UNSURE, errors={}))

    assert told[0].remedy == "Begin at the innermost frame in your own code."
    assert "by its log: " in words_of(told)
    assert "at fault" not in words_of(told)


def test_what_a_log_says_of_another_run_does_not_contradict_the_verdict() -> None:
    # The baseline could not be started for a reason outside the change: another run is asked for.
    taken = result("A2", "- -", failure=TAKEN, outside=True)
    outside = found(experiment(result("A1", "- -", failure=TAKEN, outside=True), taken))
    assert outside[0].rule == "correctness/infra"
    # One start of the baseline ended, and others did not: another run is no use, by its log alone.
    noisy = [result(f"A{n}", "x x") for n in (1, 2)] + [result("A3", "- -", failure=NAMED)]
    unsure = found(experiment(*noisy, result("B1", "x x"), result("B2", "x x")))
    assert "correctness/service-died" in {each.rule for each in unsure}
    assert "nother run" not in words_of(unsure[1:])


def words_of(told: Sequence[Finding]) -> str:
    return " ".join(
        f"{each.summary} {each.remedy} {' '.join(str(one.excerpt) for one in each.evidence)}"
        for each in told
    )


def test_a_death_by_the_error_of_an_import_names_the_next_step() -> None:
    lost = replace(DEATH, tail=("ImportError: cannot import name 'Thing' from 'lazypkg' (/x.py)",))

    death = by_rule(experiment(result("A1", "- -", failure=lost)))["correctness/service-died"]

    assert "`ci-doctor import-race probe lazypkg:Thing`" in (death.remedy or "")


def test_a_baseline_that_dies_is_a_warning() -> None:
    rules = by_rule(experiment(result("A1", "- -", failure=DEATH)))
    assert rules["correctness/service-died"].severity is Severity.WARNING
    assert rules["correctness/failed"].severity is Severity.ERROR


def test_what_the_budget_cut_short_is_shown_and_blamed_on_nobody() -> None:
    not_ready = replace(
        DEATH, kind=FailureKind.NOT_READY, message="vllm was not ready within 9 s: HTTP status 503"
    )
    made = experiment(
        result("A1", "- -", failure=not_ready, cut_short=True, errors={}),
        ending=ExperimentEnding.BUDGET,
    )
    rules = by_rule(made)
    assert list(rules) == [
        "correctness/void",
        "correctness/service-not-ready",
        "correctness/budget-spent",
    ]
    assert "A1, cut short by the budget" in rules["correctness/service-not-ready"].summary


def test_unanswered_requests_are_told_once_for_starts_that_are_alike() -> None:
    made = experiment(*(result(f"{arm}{number}", "x -") for number in (1, 2) for arm in "AB"))
    (finding,) = [each for each in found(made) if each.rule == "correctness/unanswered"]
    assert finding.summary == "1 of 2 requests was not answered in A1, B1, A2, B2"
    assert [(each.line, each.excerpt) for each in finding.evidence] == [(2, "r1: HTTP 500")]


def test_processes_that_had_to_be_killed_are_noted() -> None:
    silent = result("B1", "x x")
    killed = StopResult(duration_s=1.0, killed=(NamedProcess(pid=42, name="vllm"),))
    (note,) = found(experiment(result("A1", "x x"), replace(silent, stopped=killed)))
    assert (note.rule, note.severity) == ("correctness/killed", Severity.NOTE)
    assert "vllm (42) in B1" in note.summary


def test_what_starts_leave_behind_is_told_of_all_of_them_together() -> None:
    def left(name: str) -> LeftBehind:
        thing = LeftThing(
            kind=LeftKind.SHARED_MEMORY, name=name, services=("vllm",), why="w", strict=True
        )
        return LeftBehind(things=(thing,))

    starts = [
        replace(result(name, "x x"), stopped=StopResult(duration_s=1.0, left_behind=left(name)))
        for name in ("A1", "B1")
    ]
    finding = by_rule(experiment(*starts))["services/left-behind"]
    assert finding.severity is Severity.ERROR
    assert finding.summary == "vllm left behind 2 things: shared memory"


def found(made: Experiment, count: int = 2) -> list[Finding]:
    decision = decided(made, count)
    shown = differences(made, decision, [f"r{index}" for index in range(count)])
    return list(findings(made, decision, shown, context(count)))


def by_rule(made: Experiment) -> dict[str, Finding]:
    return {each.rule: each for each in found(made)}


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


def test_a_mix_that_changed_is_no_answer_that_is_never_given() -> None:
    starts = first_look("same two", "same three")
    starts[-1] = result("B6", "same two")
    made = experiment(*starts, ending=ExperimentEnding.BUDGET)
    shown = [each.summary for each in found(made) if each.rule == "correctness/inconclusive"]
    assert shown == ["r1: the candidate gives other answers than the baseline, or in another mix"]


@pytest.mark.parametrize(
    ("error", "answers", "at_once", "advice"),
    [
        ("ReadError", "x -", 20, "--concurrency 4"),
        ("ReadError (2 tries)", "x -", 4, "--concurrency 1"),
        ("ConnectError: All connection attempts failed", "x -", 20, "--concurrency 4"),
        ("RemoteProtocolError: Server disconnected", "x -", 20, "--concurrency 4"),
        # The server says why, one request is alone, or no start has ever answered it.
        ("HTTP 500", "x -", 20, None),
        ("ReadError", "x -", 1, None),
        ("ReadError", "- -", 20, None),
    ],
)
def test_connections_that_break_under_many_requests_ask_for_fewer_at_once(
    error: str, answers: str, at_once: int, advice: str | None
) -> None:
    both = [result(name, f"{answers} y y", passes=2) for name in ("A1", "B1")]
    made = experiment(*(replace(each, errors={"r0": error}) for each in both))
    decision = decided(made)
    assert decision.verdict is Verdict.VOID
    told = list(findings(made, decision, (), replace(context(), at_once=at_once)))
    remedies = {each.rule: each.remedy or "" for each in told}
    for rule in ("correctness/void", "correctness/unanswered"):
        assert ("--concurrency" in remedies[rule]) is (advice is not None)
        assert advice is None or f"`{advice}`" in remedies[rule]
