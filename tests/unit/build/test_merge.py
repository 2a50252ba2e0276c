# SPDX-License-Identifier: Apache-2.0
"""Every job counts once, whatever the order of its files; what is missing is never silent."""

import random
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_doctor.build.collect import Material, RecordFile, ReportFile, UnreadableFile
from ci_doctor.build.findings import outcome_of
from ci_doctor.build.job_attempt import ApiJob
from ci_doctor.build.merge import merge
from ci_doctor.model.cause import Cause, LogLine
from ci_doctor.model.facts.build import BuildFacts, JobRecord
from ci_doctor.model.outcome import Outcome, Report, Severity, Verdict
from ci_doctor.render import build_annotation, markdown, text
from tests.support.builders import a_report
from tests.support.builds import (
    ASSERTION,
    FULL_DISK,
    a_job,
    a_red_build,
    a_report_of,
    job_id,
    material_of,
    moment,
)
from tests.support.cases import cases

DISK: dict[str, Any] = {"verdict": "infra", "cause": FULL_DISK}


def merged(*records: JobRecord, reports: tuple[Report, ...] = (), **options: Any) -> Outcome:
    return outcome_of(merge(material_of(*records, reports=reports), **options))


def merged_files(records: dict[str, JobRecord]) -> Outcome:
    """Of records by their places."""
    files = tuple(RecordFile(place=place, record=record) for place, record in records.items())
    return outcome_of(merge(Material(records=files)))


def facts(outcome: Outcome) -> BuildFacts:
    assert isinstance(outcome.facts, BuildFacts)
    return outcome.facts


def errors(outcome: Outcome) -> list[str]:
    return [each.rule for each in outcome.findings if each.severity is Severity.ERROR]


def an_api_job(key: str, attempt: int = 0, **changes: Any) -> ApiJob:
    job = ApiJob(
        job=job_id(key, None, attempt),
        step_key=key,
        label=f":pytest: {key}",
        attempt=attempt,
        state="passed",
        exit_status=0,
    )
    return replace(job, **changes)


def by_id(*jobs: ApiJob) -> dict[str, ApiJob]:
    return {job.job: job for job in jobs}


def test_a_build_is_as_bad_as_its_worst_last_attempt() -> None:
    outcome = merged(*a_red_build())

    assert outcome.verdict is Verdict.FAILED
    verdicts = {step.name: step.verdict for step in facts(outcome).build_steps}
    assert verdicts == {
        "answers": "failed",
        "kv-cache": "infra",
        "latency": "pass",
        "lint": "pass",
        "restart": "pass",
        "unit": "pass",
    }


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        (["pass", "flaky"], Verdict.FLAKY),
        (["pass", "infra"], Verdict.INFRA),
        (["failed", "regression"], Verdict.REGRESSION),
        (["infra", "error"], Verdict.VOID),
        (["pass", "inconclusive"], Verdict.INCONCLUSIVE),
        (["pass", "what-is-this"], Verdict.VOID),
    ],
)
def test_the_verdict_of_a_build_is_the_worst_of_its_steps(
    words: list[str], verdict: Verdict
) -> None:
    records = [a_job(f"step-{place}", verdict=word) for place, word in enumerate(words)]

    assert merged(*records).verdict is verdict


EMPTY_FILE = UnreadableFile(place="x/job.json", problem="it is empty")


def reported(record: JobRecord, **changes: Any) -> Outcome:
    """`record` with a report of it that says something else."""
    return merged(record, reports=(a_report_of(record, **changes),))


@cases(
    ("outcome", "verdict", "rules"),
    {
        "nothing at all": (merged(), "void", ["missing-report"]),
        "a failure beside a missing report": (
            merged(a_job("e2e", verdict="failed"), expect=("nope",)),
            "failed",
            ["missing-report", "cause"],
        ),
        "a count of parallel jobs that nobody can have": (
            merged(a_job(about={"parallel_index": 0}, parallel_count=10**12)),
            "void",
            ["missing-report"],
        ),
        "a void job": (merged(a_job(verdict="void", exit_status=86)), "void", ["cause"]),
        "without an end": (merged(a_job(verdict="void", exit_status=None)), "void", ["cause"]),
        "green and cancelled": (merged(a_job(is_cancelled=True)), "void", ["cause"]),
        "green and timed out": (merged(a_job(is_timed_out=True)), "void", ["cause"]),
        "two jobs claim one attempt": (
            merged(a_job(), a_job(about={"job": "another"})),
            "void",
            ["claimed-twice"],
        ),
        "a record greener than a report": (
            reported(a_job(), verdict=Verdict.REGRESSION),
            "regression",
            ["contradiction", "cause"],
        ),
        "a record that knows a cause outside the change": (
            reported(a_job(**DISK), verdict=Verdict.FAILED),
            "infra",
            ["cause"],
        ),
        "a report that judged nothing": (
            merged(reports=(a_report_of(a_job(), verdict=None, error=None, exit_code=0),)),
            "void",
            ["cause"],
        ),
        "an unreadable file": (
            outcome_of(merge(replace(material_of(a_job()), unreadable=(EMPTY_FILE,)))),
            "void",
            ["unreadable"],
        ),
        "what could not be downloaded": (
            outcome_of(merge(material_of(a_job())), ("the agent did not answer",)),
            "void",
            ["unreadable"],
        ),
        "an API that does not answer": (
            outcome_of(merge(material_of(a_job())), api_problem="it answers 500"),
            "pass",
            ["api-unreadable"],
        ),
        "a report of another build": (
            merged(a_job("e2e"), a_job("lint", about={"build": 811})),
            "void",
            ["contradiction"],
        ),
        "a report that a record names and that is not there": (
            merged(replace(a_job(), reports=("correctness",))),
            "pass",
            ["unreported"],
        ),
        "another job of a matrix is no retry": (
            merged(
                a_job(command="t 1", verdict="failed"),
                a_job(command="t 2", attempt=1, about={"job": "other"}),
            ),
            "failed",
            ["cause"],
        ),
        **{
            f"expected {word}": (merged(a_job("e2e"), expect=(word,)), "pass", [])
            for word in ("e2e", ":pytest: e2e", "e2*")
        },
    },
)
def test_what_is_missing_or_contradicts_is_a_finding_and_no_green_build(
    outcome: Outcome, verdict: str, rules: list[str]
) -> None:
    assert (outcome.verdict, [each.rule for each in outcome.findings]) == (
        verdict,
        [f"build/{rule}" for rule in rules],
    )


@pytest.mark.parametrize("word", ["nope", "nope*", "e2e-[0-9]"])
def test_an_expected_step_without_a_report_is_void(word: str) -> None:
    outcome = merged(a_job("e2e"), expect=(word,))

    assert outcome.verdict is Verdict.VOID
    assert errors(outcome) == ["build/missing-report"]
    assert facts(outcome).missing == (word,)
    assert [case.name for case in outcome.cases if case.outcome == "error"] == [word]


def test_a_parallel_job_without_a_report_is_missing() -> None:
    records = [a_job(about={"parallel_index": place}, parallel_count=4) for place in (0, 1, 3)]

    outcome = merged(*records)

    assert outcome.verdict is Verdict.VOID
    assert facts(outcome).missing == ("e2e 3 of 4",)
    assert [step.name for step in facts(outcome).build_steps] == ["e2e 1/4", "e2e 2/4", "e2e 4/4"]


def test_a_parallel_job_that_never_ran_needs_no_report() -> None:
    jobs = [a_job(about={"parallel_index": place}, parallel_count=2) for place in (0,)]
    skipped = an_api_job("e2e", parallel_index=1, state="skipped", job="other")

    assert merged(*jobs, api_jobs=by_id(skipped)).verdict is Verdict.PASS


def test_files_that_were_downloaded_twice_count_once() -> None:
    record = a_job()
    report = a_report_of(record)
    twice = Material(
        records=tuple(RecordFile(place=f"{top}/job.json", record=record) for top in "ab"),
        reports=tuple(ReportFile(place=f"{top}/c/report.json", report=report) for top in "ab"),
    )

    outcome = outcome_of(merge(twice))

    assert outcome.verdict is Verdict.PASS
    (step,) = facts(outcome).build_steps
    assert len(step.attempts) == 1
    assert len(step.attempts[0].reports) == 1


def test_of_two_records_of_one_job_the_worst_counts() -> None:
    record = a_job()
    bad = replace(record, verdict="failed", summary="it failed")
    outcome = merged_files({"a/job.json": record, "b/job.json": bad})
    assert outcome.verdict is Verdict.FAILED
    assert "build/contradiction" in errors(outcome)
    assert len(facts(outcome).build_steps) == 1


def test_a_plugin_that_is_listed_twice_writes_its_record_twice() -> None:
    record = a_job(verdict="failed")
    later = replace(record, ended_at=moment(61), reports=("diagnose",))
    outcome = merged_files({"b/job.json": later, "a/job.json": record})
    assert "build/contradiction" not in errors(outcome)
    assert facts(outcome).build_steps[0].attempts[0].ended_at == moment(61)


def test_a_command_that_passed_and_that_nobody_judged_has_passed() -> None:
    unjudged = a_job(verdict="void", command_status=0, exit_status=0)
    diagnosed = a_report_of(unjudged, "run", verdict=None, error=None, exit_code=0)

    assert merged(unjudged).verdict is Verdict.PASS
    assert merged(replace(unjudged, reports=("run",)), reports=(diagnosed,)).verdict is Verdict.PASS


def test_a_void_report_counts_even_if_its_status_was_dropped() -> None:
    record = a_job(verdict="void", command_status=0, exit_status=0, reports=("correctness",))

    assert merged(record, reports=(a_report_of(record),)).verdict is Verdict.VOID
    assert merged(record).verdict is Verdict.VOID


@pytest.mark.parametrize("word", ["flaky", "pass"])
def test_a_green_verdict_of_a_job_that_did_not_end_with_0_does_not_pass(word: str) -> None:
    # `--fail-on-flaky` ends with 7.
    record = a_job(verdict=word, command_status=7, exit_status=7)

    outcome = merged(record, reports=(a_report_of(record),))

    assert outcome.verdict is Verdict.FAILED
    assert errors(outcome) == ["build/cause"]


def test_jobs_of_a_matrix_are_told_apart_by_their_labels_or_their_commands() -> None:
    by_label = merged(a_job(label="py 3.11"), a_job(label="py 3.12", about={"job": "other"}))
    by_command = merged(a_job(command="t 1"), a_job(command="t 2", about={"job": "other"}))

    for outcome in (by_label, by_command):
        assert outcome.verdict is Verdict.PASS
        names = [step.name for step in facts(outcome).build_steps]
        assert len(set(names)) == 2


def test_jobs_of_a_matrix_with_one_label_and_command_are_told_apart_by_their_work() -> None:
    def job(number: int, work: str | None, **changes: Any) -> JobRecord:
        return a_job("m", work=work, about={"job": job_id(number)}, **changes)

    failed, cured = job(1, "x", verdict="failed"), job(2, "x", attempt=1)
    other = job(3, "y")

    outcome = merged(failed, other, cured)

    assert outcome.verdict is Verdict.PASS
    assert [len(step.attempts) for step in facts(outcome).build_steps] == [2, 1]
    unknown = merged(job(1, "x", verdict="failed"), job(3, None))
    assert errors(unknown)[0] == "build/claimed-twice"


def test_a_thousand_gaps_of_one_kind_are_few_findings() -> None:
    records = [
        a_job(f"s{place}", attempt=attempt, about={"job": f"{place} {attempt} {claim}"})
        for place in range(100)
        for attempt in (1, 3)
        for claim in range(2)
    ]

    outcome = merged(*records, expect=[f"nope-{place}" for place in range(100)])

    assert len(outcome.findings) < 50
    assert len(facts(outcome).missing) == 100


def test_a_report_without_a_record_is_a_job_of_its_own_step() -> None:
    record = a_job(attempt=0, verdict="failed")
    retry = a_job(attempt=1)

    outcome = merged(record, reports=(a_report_of(retry),))

    (step,) = facts(outcome).build_steps
    assert [job.verdict for job in step.attempts] == ["failed", "pass"]


@pytest.mark.parametrize(
    ("state", "verdict", "rule"),
    [
        ("failed", Verdict.VOID, "build/missing-report"),
        ("running", Verdict.VOID, "build/missing-report"),
        ("timed_out", Verdict.VOID, "build/missing-report"),
        ("a-state-of-tomorrow", Verdict.VOID, "build/missing-report"),
        (None, Verdict.VOID, "build/missing-report"),
        ("passed", Verdict.PASS, "build/unreported"),
        ("broken", Verdict.PASS, None),
        ("skipped", Verdict.PASS, None),
        ("waiting_failed", Verdict.PASS, None),
    ],
)
def test_a_job_that_buildkite_knows_and_that_has_no_report(
    state: str | None, verdict: Verdict, rule: str | None
) -> None:
    outcome = merged(a_job("lint"), api_jobs=by_id(an_api_job("e2e", state=state)))

    assert outcome.verdict is verdict
    rules = {each.rule for each in outcome.findings} - {"build/cause"}
    assert rules == ({rule} if rule else set())


def test_a_lost_agent_is_a_cause_and_its_retry_is_an_attempt() -> None:
    lost = an_api_job("e2e", state="failed", exit_status=-1)

    outcome = merged(a_job("e2e", attempt=1), api_jobs=by_id(lost))

    (step,) = facts(outcome).build_steps
    assert [(job.attempt, job.verdict) for job in step.attempts] == [(0, "missing"), (1, "pass")]
    (cause,) = facts(outcome).causes
    assert "exit status -1" in cause.title
    assert outcome.verdict is Verdict.PASS


def test_a_job_that_failed_softly_without_a_report_is_a_warning() -> None:
    job = an_api_job("docs", state="failed", exit_status=1, is_soft_failed=True)

    outcome = merged(a_job("e2e"), api_jobs=by_id(job))

    assert outcome.verdict is Verdict.PASS
    assert "build/unreported" in {each.rule for each in outcome.findings}
    assert errors(outcome) == []


@pytest.mark.parametrize("verdict", ["failed", "regression", "error", "void"])
def test_a_step_that_failed_softly_does_not_make_a_green_build_red(verdict: str) -> None:
    soft = a_job("docs", verdict=verdict, cause=ASSERTION)
    api = by_id(
        an_api_job("docs", state="failed", exit_status=1, is_soft_failed=True), an_api_job("unit")
    )

    outcome = merged(soft, a_job("unit"), api_jobs=api)

    assert outcome.verdict is Verdict.PASS
    assert errors(outcome) == []
    assert "1 soft-failed" in outcome.summary
    assert [job.soft_failed for step in facts(outcome).build_steps for job in step.attempts] == [
        True,
        False,
    ]
    # Without Buildkite's word for it, a failure is one.
    assert merged(soft, a_job("unit")).verdict is not Verdict.PASS


def test_a_cancelled_job_is_no_cause_of_the_build_and_no_pass() -> None:
    by_record = merged(a_job("unit"), a_job("e2e", verdict="error", is_cancelled=True))
    api = by_id(an_api_job("e2e", state="canceled"), an_api_job("unit"))
    by_api = merged(a_job("unit"), api_jobs=api)

    for outcome in (by_record, by_api):
        assert outcome.verdict is Verdict.VOID
        assert "cause" not in outcome.summary
        assert "build/cause" not in errors(outcome)


def test_a_record_that_is_greener_than_buildkite_does_not_pass() -> None:
    outcome = merged(a_job("e2e"), api_jobs=by_id(an_api_job("e2e", state="failed", exit_status=1)))

    assert outcome.verdict is Verdict.FAILED
    assert "build/contradiction" in errors(outcome)


def test_the_api_gives_queue_times_and_the_whole_time_of_a_job() -> None:
    api = an_api_job("e2e", queued_s=12.5, began_at=moment(-5), ended_at=moment(70))

    outcome = merged(a_job("e2e"), api_jobs=by_id(api))

    job = facts(outcome).build_steps[0].attempts[0]
    assert (job.queued_s, job.began_at, job.ended_at) == (12.5, moment(-5), moment(70))
    assert facts(outcome).knows_queue


def test_the_job_that_merges_is_no_part_of_the_build() -> None:
    own = an_api_job("publish", attempt=1, state="running")
    before = an_api_job("publish", state="failed", exit_status=2)

    outcome = merged(a_job("e2e"), api_jobs=by_id(own, before), own_job=own.job)

    assert outcome.verdict is Verdict.PASS
    assert [step.name for step in facts(outcome).build_steps] == ["e2e"]


def test_hostile_names_stay_text_and_addresses_are_for_the_web() -> None:
    about = {
        "job": "../../etc/passwd",
        "build_url": "javascript:alert(1)",
        "branch": "</details><script>",
    }

    outcome = merged(a_job(label="\x1b[31m</table>\n" + "x" * 1_000_000, about=about))

    (step,) = facts(outcome).build_steps
    job = step.attempts[0]
    assert (job.job, job.url) == ("../../etc/passwd", None)
    assert len(step.name) <= 100
    assert step.name.isprintable()
    assert facts(outcome).branch == "</details><script>"


def test_texts_of_any_length_and_kind_leave_a_terminal_as_it_is() -> None:
    def long(word: str) -> str:
        return f"\x1b[2J\x1b]0;{word}\x07\u202e{word}" + word[0] * 300_000

    cause = Cause(
        fingerprint=long("fingerprint"),
        title=long("title"),
        class_=long("class"),
        place=LogLine(file=long("place"), message=long("text")),
        remedy=long("remedy"),
    )
    about = {name: long(name) for name in ("branch", "commit", "agent", "queue", "pipeline")}
    odd = a_job(
        long("key"),
        verdict="failed",
        label=long("label"),
        command=long("command"),
        summary=long("summary"),
        cause=cause,
        about={**about, "parallel_index": 0},
        parallel_count=2,
    )
    api = by_id(
        an_api_job(long("key"), label=long("name"), state=long("state"), agent=long("agent"))
    )
    outcome = merged(odd, a_job("unit", verdict=long("verdict")), api_jobs=api)
    report = replace(
        a_report(outcome.verdict),
        summary=outcome.summary,
        findings=outcome.findings,
        tables=outcome.tables,
        facts=msgspec.to_builtins(outcome.facts),
        about=merge(material_of(odd)).about,
    )

    for page in (text.render(report), markdown.render(report), build_annotation.render(report)):
        assert len(page) < 30_000
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", page)


def test_an_address_of_a_job_is_that_of_its_build() -> None:
    record = a_job()

    job = facts(merged(record)).build_steps[0].attempts[0]

    assert job.url == f"https://buildkite.com/acme/serving/builds/812#{record.about.job}"


VERDICTS = st.sampled_from(["pass", "flaky", "infra", "failed", "regression", "error", "void"])
RECORDS = st.builds(
    lambda key, attempt, verdict, label, cause, number: a_job(
        key,
        attempt=attempt,
        verdict=verdict,
        label=label,
        cause=cause,
        about={"job": f"job-{number}"},
    ),
    st.sampled_from(["a", "b"]),
    st.integers(0, 3),
    VERDICTS,
    st.sampled_from([None, "one", "two"]),
    st.sampled_from([None, FULL_DISK, ASSERTION]),
    st.integers(0, 8),
)


@given(st.lists(RECORDS, max_size=8), st.lists(RECORDS, max_size=4), st.randoms())
def test_the_order_of_the_files_means_nothing(
    records: list[JobRecord], reported: list[JobRecord], chance: random.Random
) -> None:
    material = material_of(*records, reports=tuple(a_report_of(each) for each in reported))
    shuffled = Material(
        records=tuple(chance.sample(material.records, len(material.records))),
        reports=tuple(chance.sample(material.reports, len(material.reports))),
    )

    assert outcome_of(merge(shuffled)) == outcome_of(merge(material))


@given(st.lists(RECORDS, max_size=8), st.lists(RECORDS, max_size=4))
def test_every_job_is_one_attempt_and_every_failure_has_one_cause(
    records: list[JobRecord], reported: list[JobRecord]
) -> None:
    outcome = merged(*records, reports=tuple(a_report_of(each) for each in reported))

    jobs = [job for step in facts(outcome).build_steps for job in step.attempts]
    assert sorted(job.job or "" for job in jobs) == sorted(
        {each.about.job or "" for each in (*records, *reported)}
    )
    failed = [job for job in jobs if job.verdict not in ("pass", "flaky")]
    causes = {cause.fingerprint: cause.jobs for cause in facts(outcome).causes}
    assert sum(causes.values()) == len(failed)
    assert {job.cause for job in failed} == set(causes)
    names = [step.name for step in facts(outcome).build_steps]
    assert len(set(names)) == len(names)


@given(st.lists(RECORDS, min_size=1, max_size=6), RECORDS)
def test_a_failed_last_attempt_never_makes_a_build_pass(
    records: list[JobRecord], another: JobRecord
) -> None:
    last = replace(another, about=replace(another.about, job="last", attempt=9), verdict="failed")

    assert merged(*records, last).verdict not in {Verdict.PASS, Verdict.FLAKY}
