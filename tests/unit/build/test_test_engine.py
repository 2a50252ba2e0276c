# SPDX-License-Identifier: Apache-2.0
"""Results for Test Engine: each attempt is one, with tags within the documented limits."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.build.engine_tags import tags_of
from ci_doctor.build.test_engine import Execution, executions
from ci_doctor.model.about import About
from ci_doctor.model.facts.build import BuildFacts, CauseFacts, JobFacts, StepFacts
from ci_doctor.model.outcome import Case, CaseAttempt, CaseOutcome
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict
from tests.support.builders import a_report

FAILED = CaseAttempt(
    outcome=CaseOutcome.ERROR,
    message="infra: a disk is full",
    detail="line 1\nline 2",
    duration_s=12.5,
    started_at="2026-11-21T10:00:00.000Z",
    job="j0",
)
PASSED = CaseAttempt(outcome=CaseOutcome.PASSED, duration_s=20.0, job="j1")
RETRIED = Case(
    group="ci-doctor.build", name="e2e", outcome=CaseOutcome.PASSED, attempts=(FAILED, PASSED)
)
FACTS = BuildFacts(
    build_steps=(
        StepFacts(
            name="e2e",
            verdict="pass",
            attempts=(
                JobFacts(job="j0", verdict="infra", summary="a disk is full", cause="5d1c"),
                JobFacts(job="j1", attempt=1, verdict="pass", summary="ok"),
            ),
        ),
    ),
    causes=(
        CauseFacts(
            fingerprint="5d1c", title="a disk is full", class_="disk", steps=("e2e",), jobs=1
        ),
    ),
)


def a_build(*cases: Case, facts: BuildFacts = FACTS) -> Report:
    return msgspec.structs.replace(
        a_report(Verdict.PASS, command="build"),
        cases=cases,
        facts=msgspec.to_builtins(facts),
        about=About(build_url="https://buildkite.com/acme/serving/builds/812"),
        started_at="2026-11-21T11:00:00.000Z",
    )


def results(*cases: Case) -> list[Execution]:
    return list(executions(a_build(*cases)))


def test_each_attempt_is_an_execution_of_the_same_test() -> None:
    first, second = results(RETRIED)

    assert [(each["scope"], each["name"]) for each in (first, second)] == [
        ("ci-doctor.build", "e2e")
    ] * 2
    assert (first["result"], second["result"]) == ("failed", "passed")
    assert first["history"] == {
        "section": "top",
        "start_at": 1795255200.0,
        "end_at": 1795255212.5,
        "duration": 12.5,
    }
    assert first["failure_reason"] == "infra: a disk is full"
    assert first["failure_expanded"] == [{"expanded": ["line 1", "line 2"], "backtrace": []}]
    assert "failure_reason" not in second


def test_tags_have_our_verdict_and_the_cause_of_the_attempts_job() -> None:
    first, second = results(RETRIED)

    assert first["tags"] == {
        "ci_doctor.execution": "1",
        "ci_doctor.step": "e2e",
        "ci_doctor.verdict": "infra",
        "ci_doctor.attempt": "1",
        "build.job_id": "j0",
        "ci_doctor.cause": "a disk is full",
        "ci_doctor.cause_id": "5d1c",
        "ci_doctor.cause_class": "disk",
    }
    assert second["tags"]["ci_doctor.verdict"] == "pass"
    assert "ci_doctor.cause" not in second["tags"]


def test_a_case_without_attempts_is_one_execution_at_the_reports_time() -> None:
    (only,) = results(Case(group="pins", name="vllm", outcome=CaseOutcome.SKIPPED))

    assert (only["result"], only["history"]["start_at"]) == ("skipped", 1795258800.0)
    assert only["history"]["duration"] == 0.0


def test_no_execution_ends_before_its_start() -> None:
    (only,) = results(Case(group="g", name="n", outcome=CaseOutcome.PASSED, duration_s=-3.0))

    assert only["history"]["duration"] == 0.0
    assert only["history"]["end_at"] == only["history"]["start_at"]


def test_an_execution_has_the_same_id_whenever_it_is_uploaded() -> None:
    first = [each["id"] for each in results(RETRIED)]

    assert first == [each["id"] for each in results(RETRIED)]
    assert len(set(first)) == 2


def test_hostile_and_huge_texts_are_cut_and_printable() -> None:
    bad = "\x1b[31m\x00</details>" + "x" * 1_000_000
    case = Case(group=bad, name=bad, outcome=CaseOutcome.FAILED, message=bad, detail=f"{bad}\n" * 3)

    (only,) = results(case)

    encoded = msgspec.json.encode(only)
    assert len(encoded) < 10_000
    assert b"\\u001b" not in encoded
    assert b"\\u0000" not in encoded


@given(st.dictionaries(st.sampled_from([f"k{n}" for n in range(20)]), st.text() | st.none()))
def test_tags_never_pass_the_limits(values: dict[str, str | None]) -> None:
    tags = tags_of(values)

    assert len(tags) <= 10
    assert all(value.strip() and len(value.encode()) < 128 for value in tags.values())


@pytest.mark.parametrize(
    "keys", [["mut.verdict"], ["mut"], ["1a"], ["a b"], ["x" * 64], ["a.b", "a"]]
)
def test_a_key_that_test_engine_refuses_is_an_error_of_ours(keys: list[str]) -> None:
    with pytest.raises(ValueError, match="takes no tag"):
        tags_of(dict.fromkeys(keys, "x"))
