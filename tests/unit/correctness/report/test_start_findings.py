# SPDX-License-Identifier: Apache-2.0
from msgspec.structs import replace

from ci_doctor.correctness.results import ExperimentEnding
from ci_doctor.model.finding import Severity
from ci_doctor.model.service import FailureKind, LeftBehind, LeftKind, LeftThing
from tests.unit.correctness.experiments import DEATH, experiment, result
from tests.unit.correctness.report.test_findings import found


def test_a_candidate_that_dies_every_time_is_to_blame_with_its_logs_lines() -> None:
    results = [result("A1", "x x"), result("B1", "- -", failure=DEATH, errors={})]
    results += [result("A2", "x x"), result("B2", "- -", failure=DEATH, errors={})]
    results += [result("A3", "x x"), result("B3", "- -", failure=DEATH, errors={})]
    results += [result("A4", "x x"), result("B4", "- -", failure=DEATH, errors={})]
    results.append(result("B5", "- -", failure=DEATH, errors={}))
    verdict, death = found(experiment(*results))
    assert verdict.remedy == "ci-doctor correctness --only ID"
    assert (death.rule, death.severity) == ("correctness/service-died", Severity.ERROR)
    assert death.summary == f"candidate (B1, B2, B3, B4, B5): {DEATH.message}"
    assert (death.evidence[0].line, death.evidence[0].excerpt) == (7, "RuntimeError: no")


def test_a_death_by_the_error_of_an_import_names_the_next_step() -> None:
    lost = replace(DEATH, tail=("ImportError: cannot import name 'Thing' from 'lazypkg' (/x.py)",))

    (death,) = [
        each
        for each in found(experiment(result("A1", "- -", failure=lost)))
        if each.rule == "correctness/service-died"
    ]

    assert "`ci-doctor import-race probe lazypkg:Thing`" in (death.remedy or "")


def test_a_baseline_that_dies_is_a_warning() -> None:
    rules = {
        each.rule: each.severity for each in found(experiment(result("A1", "- -", failure=DEATH)))
    }
    assert rules["correctness/service-died"] is Severity.WARNING
    assert rules["correctness/failed"] is Severity.ERROR


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


def test_requests_that_were_told_to_come_again_later_are_counted_by_start() -> None:
    made = experiment(result("A1", "x x"), result("B1", "x x", throttled=2))
    (note,) = found(made)

    assert (note.rule, note.severity) == ("correctness/throttled", Severity.NOTE)
    assert note.summary == "requests were answered only after HTTP 429: 2 in B1"


def test_what_starts_leave_behind_is_told_of_all_of_them_together() -> None:
    def left(name: str) -> LeftBehind:
        thing = LeftThing(
            kind=LeftKind.SHARED_MEMORY, name=name, services=("vllm",), why="w", strict=True
        )
        return LeftBehind(things=(thing,))

    starts = [replace(result(name, "x x"), left_behind=left(name)) for name in ("A1", "B1")]
    (finding,) = [
        each for each in found(experiment(*starts)) if each.rule == "services/left-behind"
    ]
    assert finding.severity is Severity.ERROR
    assert finding.summary == "vllm left behind 2 things: shared memory"
