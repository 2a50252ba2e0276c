# SPDX-License-Identifier: Apache-2.0
"""What a job publishes holds no secret, and takes less time than its hook has."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.buildkite.job import JobEnd, JobEnvironment
from ci_doctor.commands.plugin import _PUBLISH_S
from ci_doctor.model.cause import Cause, FailureClass, LogLine
from ci_doctor.model.facts.build import JobRecord
from ci_doctor.model.outcome import About, ErrorKind, Evidence, Failure, Report, Severity, Verdict
from ci_doctor.session.publishing import (
    FinishedJob,
    about_of_job,
    budget_s,
    record_of,
    said_of,
    step_shown,
    with_others,
)
from tests.support.builders import a_finding, a_report
from tests.support.diagnoses import a_cause, a_diagnosis, report_of

ROOT = Path("/checkout/ci-doctor-report/0190")
DISK = report_of(a_diagnosis(a_cause(class_=FailureClass.DISK, is_outside=True)))
ASSERTION = report_of(a_diagnosis(a_cause(class_=FailureClass.TEST_ASSERTION)))
NOTHING = report_of(a_diagnosis(None))
DIED = a_finding(
    rule="services/died",
    summary="vllm died: exit code 1",
    evidence=(
        Evidence(file="vllm-1.log", line=7, excerpt="  loading\n> ValueError: 3 heads\n  bye"),
    ),
    remedy="see its log",
)


BY_CLASS = replace(
    DISK, command="run", exit_code=75, facts={"exit_code": 1, "diagnosis": DISK.facts}
)
UNSURE = report_of(a_diagnosis(a_cause(class_=FailureClass.DISK, is_outside=True, is_final=False)))


def end(command: int | None = 1, *, hook: int = 0, **changes: Any) -> JobEnd:
    failures = tuple(status for status in (command, hook) if status)
    return JobEnd(has_run=command is not None, failures=failures, command_status=command, **changes)


def record(*reports: Report, **changes: Any) -> JobRecord:
    finished = FinishedJob(
        job=JobEnvironment(job_id="0190", label=":pytest: e2e", command="bash x", parallel_count=4),
        about=About(job="0190"),
        end=end(),
        root=ROOT,
        reports=[(ROOT / f"{number}" / each.command, each) for number, each in enumerate(reports)],
        command_status=1,
        began_at="2026-11-22T10:00:00.000Z",
        ended_at="2026-11-22T10:05:00.000Z",
    )
    return record_of(replace(finished, **changes))


@pytest.mark.parametrize(
    ("reports", "of_end", "verdict"),
    [
        ([a_report(Verdict.PASS)], end(0), "pass"),
        ([a_report(Verdict.FLAKY)], end(0), "flaky"),
        ([], end(0), "void"),
        ([], end(1), "failed"),
        ([DISK], end(75), "infra"),
        ([DISK], end(1), "infra"),
        ([a_report(Verdict.PASS), DISK], end(1), "infra"),
        ([BY_CLASS, UNSURE], end(75), "infra"),
        ([replace(BY_CLASS, facts={"exit_code": 1})], end(75), "failed"),
        ([ASSERTION], end(1), "failed"),
        ([NOTHING], end(1), "failed"),
        ([DISK, ASSERTION], end(1), "failed"),
        # Nobody knows who sent the signal.
        ([DISK], end(-1), "failed"),
        # The diagnosis is of the command, and a hook failed.
        ([DISK], end(0, hook=3), "failed"),
        ([a_report(Verdict.REGRESSION), DISK], end(1), "regression"),
        ([DISK], end(143, is_cancelled=True), "error"),
        ([DISK], end(143, is_cancelled=True, is_timed_out=True), "error"),
        ([], end(None), "error"),
        ([a_report(None)], end(None, hook=2), "error"),
    ],
)
def test_the_verdict_is_the_worst_of_what_is_known(
    reports: list[Report], of_end: JobEnd, verdict: str
) -> None:
    made = record(*reports, end=of_end)

    assert made.verdict == verdict
    assert made.summary


def test_a_diagnosis_gives_the_cause() -> None:
    made = record(a_report(Verdict.PASS), DISK, end=end(75))

    assert made.cause is not None
    assert (made.cause.title, made.cause.class_) == ("disk", "disk")
    assert made.cause.where == "server.log:10"
    assert made.cause.text == "ValueError: 40 heads for 3 GPUs"
    assert made.cause.fingerprint == "d36b44f3af775a6e"
    assert made.cause.may_be_retried
    assert made.summary == "disk: ValueError: 40 heads for 3 GPUs"
    assert (made.command_status, made.exit_status) == (1, 75)
    assert made.reports == ("0/correctness", "1/diagnose")


def test_the_report_that_explains_the_status_stands_above_a_diagnosis() -> None:
    judged = a_report(Verdict.FAILED, command="launch", findings=(DIED,), summary="vllm died")

    made = record(judged, DISK)

    assert made.cause is not None
    assert made.cause.title == "vllm died: exit code 1"
    assert made.cause.text == "ValueError: 3 heads"
    assert made.cause.where == "vllm-1.log:7"
    assert made.cause.remedy == "see its log"
    assert made.cause.class_ is None
    assert not made.cause.may_be_retried
    assert made.summary == "vllm died"


def test_the_same_failure_has_the_same_fingerprint_in_another_job() -> None:
    other = replace(
        DIED, evidence=(Evidence(file="b.log", line=99, excerpt="> ValueError: 3 heads"),)
    )
    differing = replace(DIED, evidence=(Evidence(file="b.log", excerpt="> KeyError: 'x'"),))
    causes = [
        record(a_report(Verdict.FAILED, findings=(finding,))).cause
        for finding in (DIED, other, differing)
    ]

    first, second, third = [cause.fingerprint for cause in causes if cause is not None]
    assert first == second != third


def test_a_note_is_no_cause_and_an_error_without_findings_is_one() -> None:
    note = a_finding(Severity.NOTE)
    error = Failure(message="no space left", hint="free some", kind=ErrorKind.INFRA)
    ended = a_report(Verdict.INFRA, error=error, findings=(note,))

    made = record(ended, end=end(75))

    assert made.cause is not None
    assert (made.cause.title, made.cause.remedy) == ("no space left", "free some")
    assert made.cause.may_be_retried
    assert record(a_report(Verdict.PASS, findings=(note,))).cause is None


def test_a_job_that_passed_has_no_cause_though_an_attempt_of_it_failed() -> None:
    made = record(a_report(Verdict.FLAKY, findings=(DIED,)), end=end(0), command_status=None)

    assert made.cause is None
    assert (made.command_status, made.exit_status) == (0, 0)


@pytest.mark.parametrize(
    ("of_end", "status", "words"),
    [
        (end(-1), 255, "status -1"),
        (end(300), 44, "status 300"),
        (end(None, hook=4), 4, "a hook ended with status 4"),
        (end(0, hook=4), 4, "a hook ended with status 4"),
        (end(None), None, "ended before its command"),
        (end(143, is_cancelled=True), 143, "cancelled"),
        (end(143, is_cancelled=True, is_timed_out=True), 143, "time limit"),
        (end(0), 0, "passed"),
    ],
)
def test_a_job_without_reports_is_described_by_its_end(
    of_end: JobEnd, status: int | None, words: str
) -> None:
    made = record(end=of_end, command_status=None)

    assert made.exit_status == status
    assert words in made.summary
    assert made.reports == ()


def test_a_long_line_is_cut() -> None:
    long = replace(DIED, evidence=(Evidence(excerpt="> " + "x" * 10_000),))

    cut = record(a_report(Verdict.FAILED, findings=(long,))).cause

    assert cut is not None
    assert len(cut.text or "") == 500


def test_a_record_without_a_diagnosis_says_the_commands_own_status() -> None:
    # On a disk that filled up the diagnosis was printed alone, and the hook made 75 of 1.
    kept = record(end=end(75))

    assert kept.summary.startswith("the command ended with status 1;")
    assert kept.exit_status == 75


JOB = JobEnvironment(job_id="0190-j", step_key="e2e", retry_count=1, build_url="https://b/1")


def unfinished(reports: list[Report], of_end: JobEnd | None = None) -> JobRecord:
    """The record of a job without the plugin."""
    placed = [(ROOT, report) for report in reports]
    return record_of(FinishedJob(job=JOB, about=about_of_job(JOB), end=of_end, reports=placed))


def test_a_command_that_still_runs_has_no_status() -> None:
    made = unfinished([a_report(Verdict.REGRESSION)])

    assert (made.verdict, made.command_status, made.about.attempt) == ("regression", None, 1)


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        ([], "flaky"),
        ([a_report()], "flaky"),
        ([a_report(Verdict.INFRA)], "infra"),
        ([a_report(), a_report(None)], "error"),
    ],
)
def test_a_worse_report_from_elsewhere_decides(others: list[Report], verdict: str) -> None:
    made = unfinished([a_report(Verdict.FLAKY)])

    assert with_others(made, others).verdict == verdict


def test_what_an_attempt_said_is_its_verdict_its_cause_and_its_status() -> None:
    of_end = JobEnd(has_run=True, failures=(75,), command_status=75)
    made = unfinished([], of_end)
    cause = Cause(fingerprint="f", title="disk full", place=LogLine(message="No space\nleft"))

    said = said_of(replace(made, cause=cause), [], JOB)

    assert (said.attempt, said.job, said.exit_status) == (1, "0190-j", 75)
    assert (said.verdict, said.cause) == ("failed", "disk full: No space left")


HOOK = Path(__file__).parents[3] / "buildkite_plugins/ci-doctor/hooks/pre-exit"


def test_publishing_takes_less_time_than_the_hook_gives_it() -> None:
    limit = re.search(r"CI_DOCTOR_HOOK_SECONDS:-(\d+)", HOOK.read_text())

    assert limit is not None
    assert budget_s(None) < _PUBLISH_S < float(limit[1])


def test_the_command_of_a_step_without_the_plugin_shows_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "s3cr3tvalue-abcdef")
    job = JobEnvironment(job_id="1", command="deploy --token s3cr3tvalue-abcdef")
    end = JobEnd(has_run=True, failures=(1,), command_status=1)

    shown = step_shown([], job, end, None)(())

    assert shown is not None
    assert "deploy --token" in shown.body
    assert "s3cr3tvalue" not in shown.body
