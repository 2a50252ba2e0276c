# SPDX-License-Identifier: Apache-2.0
"""The page of a build: every attempt in words, nothing that acts, and small with a thousand jobs."""

import base64
import hashlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins
from msgspec.structs import replace

from ci_doctor.build.collect import Material, RecordFile
from ci_doctor.build.merge import merge
from ci_doctor.build.outcome import outcome_of
from ci_doctor.model.cause import Cause, LogLine
from ci_doctor.model.facts.build import BuildFacts, CauseFacts, JobFacts, RetryWorth, StepFacts
from ci_doctor.model.finding import Severity
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.render import html, json, renderer
from tests.support.build_pages import (
    FULL_DISK,
    a_job,
    a_step,
    build_report,
    fifty_jobs,
    one_job,
    thousand_jobs,
)
from tests.support.builders import a_finding, a_report
from tests.support.builds import BUILD_URL
from tests.support.builds import a_job as a_record
from tests.support.parsed_page import ParsedPage
from tests.unit.render.strategies import LINE, MAYBE_TEXT, TEXT, VALUES, whole

ANY_SECONDS = st.none() | st.floats()
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
TIMES = MAYBE_TEXT | st.datetimes().map(lambda moment: moment.isoformat() + "Z")
VERDICTS = TEXT | st.sampled_from(["pass", "failed", "infra", "missing", "error", "flaky"])
JOBS = st.builds(
    JobFacts,
    job=MAYBE_TEXT,
    attempt=st.integers(0, 9),
    queued_s=ANY_SECONDS,
    began_at=TIMES,
    ended_at=TIMES,
    verdict=VERDICTS,
    summary=TEXT,
    exit_status=LINE,
    cause=MAYBE_TEXT,
    agent=MAYBE_TEXT,
    queue=MAYBE_TEXT,
    gpus=LINE,
    url=MAYBE_TEXT | st.just("javascript:alert(1)"),
    reports=TEXTS,
    retry=st.none() | st.sampled_from(RetryWorth),
)
STEPS = st.builds(
    StepFacts, name=TEXT, verdict=VERDICTS, attempts=st.lists(JOBS, max_size=3).map(tuple)
)
CAUSES = st.builds(
    CauseFacts,
    fingerprint=TEXT,
    title=TEXT,
    class_=MAYBE_TEXT,
    place=st.builds(LogLine, file=TEXT, message=TEXT),
    remedy=TEXT,
    steps=TEXTS,
    jobs=st.integers(0, 99),
    seconds=ANY_SECONDS,
    gpu_seconds=ANY_SECONDS,
)
BUILDS = st.builds(
    BuildFacts,
    pipeline=MAYBE_TEXT,
    build=LINE,
    build_url=MAYBE_TEXT | st.just(BUILD_URL),
    commit=MAYBE_TEXT,
    branch=MAYBE_TEXT,
    began_at=TIMES,
    build_steps=st.lists(STEPS, min_size=1, max_size=4).map(tuple),
    causes=st.lists(CAUSES, max_size=2).map(tuple),
    missing=TEXTS,
    duplicates=TEXTS,
    knows_queue=st.booleans(),
)


@given(BUILDS)
@whole
def test_any_build_is_a_well_formed_page_that_runs_nothing_but_its_own_script(
    facts: BuildFacts,
) -> None:
    text = html.render(build_report(facts))
    page = ParsedPage(text)

    assert 'class="cards timeline"' in text
    assert page.tags.count("script") == page.tags.count("style") == 1
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert text.encode().endswith(b"</html>\n")
    for link in page.links:
        assert re.fullmatch(r"#main|#cause-\d+|https?://[\x21-\x7e]+|[A-Za-z0-9_+=,./-]+", link)
    for size in re.findall(r' (?:x|y|width|height|x1|x2)="([^"]*)"', text):
        assert re.fullmatch(r"\d+(\.\d+)?%?", size)


@given(st.dictionaries(st.sampled_from(list(BuildFacts.__struct_fields__)), VALUES), VALUES)
@whole
def test_facts_of_another_form_do_not_take_the_page_away(facts: dict[str, Any], steps: Any) -> None:
    known = one_job().facts
    ParsedPage(html.render(a_report(facts={**facts, "build_steps": steps})))

    page = ParsedPage(html.render(a_report(facts={**facts, "build_steps": known["build_steps"]})))
    assert "Every attempt on a time axis" in page.text


@pytest.mark.parametrize("report", [one_job(), fifty_jobs()], ids=["one job", "fifty jobs"])
def test_every_attempt_stands_there_in_words(report: Report) -> None:
    page = ParsedPage(html.render(report))
    words = " ".join(page.text.split())

    for step in report.facts["build_steps"]:
        assert step["name"] in words
        for attempt in step["attempts"]:
            assert attempt["verdict"] == "missing" or f"{BUILD_URL}#{attempt['job']}" in page.links
    assert report.summary in words
    assert "2026-11-21 09:58:12 UTC" in words
    assert "c0ffeec0ffee" in words


def test_the_policy_allows_no_network_and_only_the_pages_own_style_and_script() -> None:
    page = ParsedPage(html.render(fifty_jobs()))
    rules = dict(rule.split(" ", 1) for rule in page.policy.split("; "))

    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for tag in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.raw[tag].encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"


def test_the_same_build_gives_the_same_page_also_after_it_was_written_and_read() -> None:
    report = fifty_jobs()

    assert html.render(report) == html.render(fifty_jobs())
    assert html.render(json.parse(json.render(report))) == html.render(report)


def words_of(report: Report) -> str:
    return " ".join(ParsedPage(html.render(report)).text.split())


def test_every_gap_stands_before_everything_else() -> None:
    unreadable = a_finding(rule="build/unreadable", summary="1 file could not be read")
    report = fifty_jobs()
    words = words_of(replace(report, findings=(*report.findings, unreadable)))

    gaps = words[
        words.index("Not everything is here") : words.index("Causes One row for each cause")
    ]
    assert "left no report" in gaps
    assert "2 jobs claim to be attempt 1 of kernels 3" in gaps
    assert "1 file could not be read" in gaps


@pytest.mark.parametrize("gaps", [0, 1])
def test_more_names_than_the_findings_have_are_all_there(gaps: int) -> None:
    report = fifty_jobs()
    missing = [f"shard {number}" for number in range(30)]
    facts = {**report.facts, "missing": missing, "duplicates": []}
    words = words_of(replace(report, facts=facts, findings=report.findings[:gaps]))

    assert "30 missing reports" in words
    assert "shard 29" in words


def test_what_a_row_of_the_causes_says_is_no_finding_as_well() -> None:
    title = "W" * 1000  # a title is cut
    cause = Cause(fingerprint="f", title=title, class_="disk", place=LogLine(message=title))
    records = [a_record("unit")]
    for number in range(40):
        own = replace(cause, fingerprint=f"f{number}")
        records.append(a_record(f"step {number}", verdict="failed", cause=own))
    files = [RecordFile(place=f"{each.about.job}", record=each) for each in records]
    outcome = outcome_of(merge(Material(records=tuple(files))))
    warning = a_finding(Severity.WARNING, summary="an attempt left no report")
    findings = (*outcome.findings, warning)
    report = a_report(Verdict.FAILED, facts=to_builtins(outcome.facts), findings=findings)
    words = words_of(report)

    assert len(outcome.findings) > 30
    assert "failed in" not in words
    assert "further cause" not in words
    assert "Not everything is here" not in words
    assert "Findings ! an attempt left no report" in words


def test_a_whole_build_has_neither_gaps_nor_causes_nor_retries() -> None:
    words = words_of(one_job())

    for title in ("Not everything is here", "Causes", "Retries", "Only failures"):
        assert title not in words
    assert "First Nothing is left to do." in words
    # There may have been a token, and no answer.
    assert "Queue times are unknown" in words
    assert "no token" not in words


def test_the_page_of_a_build_is_written_and_that_of_a_plain_report_is_not() -> None:
    page = renderer("html")

    assert page.is_for(one_job())
    assert not page.is_for(a_report(facts={"version": 1, "build_steps": []}))
    assert page.is_for(a_report(facts={"matrix": {"starts": []}}))


def test_a_thousand_jobs_with_the_longest_names_stay_within_three_megabytes() -> None:
    usual = html.render(thousand_jobs())
    assert usual.count('role="rowheader"') >= 1000
    assert len(usual.encode()) < 1_500_000

    hostile = "<&\"'>" * 1000
    job = a_job(verdict="infra", summary=hostile, agent=hostile, cause="c", reports=(hostile,))
    steps = tuple(a_step(hostile, replace(job, job=f"j{number}")) for number in range(1000))
    many = (hostile,) * 1000
    cause = replace(
        FULL_DISK, fingerprint="c", title=hostile, place=LogLine(message=hostile), steps=many
    )
    facts = BuildFacts(
        build_steps=steps, causes=(cause,), missing=many, branch=hostile, build_url=BUILD_URL
    )
    size = len(html.render(build_report(facts)).encode())
    assert size < 3_000_000


def test_a_line_of_a_megabyte_is_cut() -> None:
    line = "\u202e\x1b[31mx\x00\n" * 100_000
    cause = replace(FULL_DISK, place=LogLine(message=line), title=line, steps=(line,), jobs=1)
    job = a_job(verdict="infra", summary=line, cause=cause.fingerprint, agent=line)
    facts = BuildFacts(
        build_steps=(a_step(line, job),), causes=(cause,), pipeline=line, branch=line
    )

    page = html.render(build_report(facts, summary=line))
    assert len(page) < 100_000
