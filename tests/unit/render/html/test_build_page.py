# SPDX-License-Identifier: Apache-2.0
"""The page of a build: every attempt in words, nothing that acts, and small with a thousand jobs."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins
from msgspec.structs import replace

from ci_doctor.build.collect import Material, RecordFile
from ci_doctor.build.findings import outcome_of
from ci_doctor.build.merge import merge
from ci_doctor.model.cause import Cause, LogLine
from ci_doctor.model.facts.build import BuildFacts, CauseFacts, JobFacts, RetryWorth, StepFacts
from ci_doctor.model.outcome import Report, Severity, Verdict
from ci_doctor.render import html, renderer
from ci_doctor.render.html.build_page import (
    build_axis,
    figures,
    hours,
    instant,
    page_causes,
    page_steps,
    shares,
    span_of,
    wall_time,
)
from ci_doctor.render.html.templating import Shown
from tests.support.build_pages import (
    ASSERTION,
    FULL_DISK,
    a_job,
    a_step,
    build_report,
    fifty_jobs,
    one_job,
    thousand_jobs,
)
from tests.support.builders import a_finding, a_report
from tests.support.builds import BEGIN, BUILD_URL
from tests.support.builds import a_job as a_record
from tests.support.parsed_page import ParsedPage
from tests.unit.render.strategies import LINE, MAYBE_TEXT, TEXT, VALUES, whole

DISK = replace(FULL_DISK, steps=("a", "b"), jobs=2, seconds=600.0, gpu_seconds=4800.0)
TESTS = replace(ASSERTION, steps=("c",), jobs=1, seconds=150.0)


def test_the_dearest_cause_fills_the_rail_and_the_others_their_part() -> None:
    unexplained = CauseFacts(fingerprint="x", title="no cause known", steps=("d",), jobs=1)
    rows = page_causes(BuildFacts(causes=(DISK, TESTS, unexplained)))

    assert [(row["took"], row["gpu_hours"], row["share"], row["another_run"]) for row in rows] == [
        ("10 min 00 s", "1.3 h", "100%", "may help"),
        ("2 min 30 s", "unknown", "25%", "does not help"),
        ("unknown", "unknown", "0%", "unknown"),
    ]


def test_the_agents_on_which_a_cause_struck_are_counted() -> None:
    jobs = [a_job(cause=DISK.fingerprint, agent=agent) for agent in ("g1", "g2", "g2", "g3", "g4")]
    steps = tuple(a_step(f"s{number}", job) for number, job in enumerate(jobs))
    row = page_causes(BuildFacts(build_steps=steps, causes=(DISK,)))[0]

    assert row["agents"][0] == ("g2", 2)
    assert (len(row["agents"]), row["agents_left_out"]) == (3, 1)


def test_many_steps_are_folded_and_bounded() -> None:
    cause = replace(DISK, steps=tuple(f"s{number}" for number in range(300)))
    row = page_causes(BuildFacts(causes=(cause,)))[0]

    assert (len(row["first_steps"]), len(row["more_steps"]), row["steps_left_out"]) == (4, 196, 100)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 h"), (100, "< 0.1 h"), (3600, "1.0 h"), (3.6e7, "10,000.0 h"), (None, "unknown"), (-1, "unknown")],
)  # fmt: skip
def test_gpu_seconds_are_shown_as_hours(seconds: float | None, text: str) -> None:
    assert hours(seconds) == text


def test_a_sum_with_an_unknown_part_is_a_least_and_without_a_known_one_unknown() -> None:
    facts = BuildFacts(build_steps=(a_step("s"),), causes=(DISK, replace(TESTS, seconds=None)))
    shown = dict(figures(facts, build_axis(facts)))

    assert shown["lost to failures"] == "≥ 10 min 00 s"
    assert shown["GPU hours lost"] == "≥ 1.3 h"

    nothing = replace(facts, causes=(replace(TESTS, seconds=None),))
    assert dict(figures(nothing, None))["lost to failures"] == "unknown"


def test_verdicts_share_the_strip_the_worst_first() -> None:
    steps = (a_step("a"), a_step("b"), a_step("c", a_job(verdict="infra")), a_step("d", a_job(verdict="failed")))  # fmt: skip
    rows = shares(BuildFacts(build_steps=steps))

    assert [(row["head"].word, row["number"], row["x"], row["width"]) for row in rows] == [
        ("FAILED", 1, "0%", "25%"),
        ("INFRA", 1, "25%", "25%"),
        ("PASS", 2, "50%", "50%"),
    ]


JOB = "01935c7e-0000-4000-8000-000000000001"


def _rows(*steps: StepFacts, **changes: object) -> Shown:
    facts = replace(BuildFacts(build_steps=steps, build_url=BUILD_URL), **changes)
    return page_steps(facts, build_axis(facts), {FULL_DISK.fingerprint: 1})


def _attempts(*steps: StepFacts, **changes: object) -> list[Shown]:
    """Those of the first step."""
    attempts: list[Shown] = _rows(*steps, **changes)["rows"][0]["attempts"]
    return attempts


def test_an_attempt_says_when_it_began_how_long_it_took_and_how_long_it_was_queued() -> None:
    attempt = _attempts(a_step("s", a_job(60, 302, queued_s=60)))[0]

    assert (attempt["began"], attempt["took"], attempt["queued"]) == ("+1 min 00 s", "5 min 02 s", "1 min 00 s")  # fmt: skip


def test_what_nobody_knows_reads_unknown_and_has_no_bar() -> None:
    job = a_job(began_at=None, ended_at=None, verdict="missing")
    attempt = _attempts(a_step("s", job))[0]

    assert (attempt["began"], attempt["took"], attempt["queued"]) == ("unknown",) * 3
    assert attempt["bar"] is None
    assert attempt["head"].word == "MISSING"


@pytest.mark.parametrize(("queued_s", "queue"), [(None, None), (25, ("25%", "50%"))])
def test_the_queue_stands_before_the_bar(
    queued_s: float | None, queue: tuple[str, str] | None
) -> None:
    job = a_job(50, 50, queued_s=queued_s)
    bar = _attempts(a_step("s", job), a_step("t", a_job(0, 100)))[0]["bar"]

    assert (bar["x"], bar["width"], bar["queue"]) == ("50%", "50%", queue)


@pytest.mark.parametrize("worth", RetryWorth)
def test_a_retry_is_joined_to_the_attempt_before_it_and_has_its_words(worth: RetryWorth) -> None:
    first = a_job(0, 20, verdict="infra", retry=worth)
    rows = _rows(a_step("s", first, a_job(50, 50, attempt=1)))
    attempts = rows["rows"][0]["attempts"]
    bars = [attempt["bar"] for attempt in attempts]

    assert [(bar["since"], bar["until"]) for bar in bars] == [(None, "20%"), ("20%", None)]
    assert attempts[0]["retry"]
    assert attempts[0]["retry_hid"] is (worth is RetryWorth.HID_A_FAILURE)
    assert rows["key"] == [("infra", "INFRA"), ("pass", "PASS")]
    assert rows["retried"] == 1


def test_the_shortest_job_can_be_seen_also_at_the_end() -> None:
    bar = _attempts(a_step("s", a_job(99_999, 1)), a_step("t", a_job(0, 100_000)))[0]["bar"]

    assert (bar["x"], bar["width"], bar["end"]) == ("99.75%", "0.25%", "100%")


def test_a_failure_shows_its_cause_and_leads_to_it_or_what_the_job_said() -> None:
    job = a_job(verdict="infra", cause=FULL_DISK.fingerprint, summary="exit status 1")
    known = _attempts(a_step("s", job), causes=(FULL_DISK,))[0]
    unknown = _attempts(a_step("s", a_job(verdict="failed", summary="3 tests failed")))[0]

    assert (known["why"], known["cause"]) == (FULL_DISK.title, 1)
    assert known["where"] == "gpu-1 · queue h200 · 8 GPUs"
    assert (unknown["why"], unknown["cause"]) == ("3 tests failed", None)


def test_a_job_without_an_address_is_reached_through_its_build() -> None:
    assert _attempts(a_step("s", a_job(url=None)))[0]["url"] == f"{BUILD_URL}#{JOB}"
    assert _attempts(a_step("s", a_job(job="../x#y", url=None)))[0]["url"] is None


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "//x.example", "https://x/<script>"])  # fmt: skip
def test_only_an_address_of_the_web_becomes_a_link(url: str) -> None:
    assert _attempts(a_step("s", a_job(url=url)), build_url=url)[0]["url"] is None


def test_steps_know_their_place_by_begin_those_without_a_time_come_last() -> None:
    steps = (a_step("c", a_job(50)), a_step("x", a_job(began_at=None)), a_step("a", a_job(0)))

    assert [row["rank"] for row in _rows(*steps)["rows"]] == [1, 2, 0]


def test_failures_are_steps_whose_last_attempt_did_not_pass() -> None:
    hidden = a_step("h", a_job(verdict="failed"), a_job(attempt=1))
    failed = a_step("f", a_job(verdict="failed"))
    strange = a_step("n", a_job(verdict="a word of a later version"))
    rows = _rows(hidden, failed, strange)

    assert [row["is_fine"] for row in rows["rows"]] == [True, False, False]
    assert rows["failures"] == 2


def test_a_step_without_attempts_keeps_its_row() -> None:
    step = StepFacts(name="s", verdict="missing", attempts=())

    assert [row["attempts"] for row in _rows(step)["rows"]] == [[]]


def test_more_than_a_page_holds_is_counted() -> None:
    causes = tuple(
        CauseFacts(fingerprint=str(number), title="x", steps=(), jobs=1) for number in range(103)
    )
    rows = _rows(*[a_step(f"s{number}") for number in range(2003)])

    assert len(page_causes(BuildFacts(causes=causes))) == 100
    assert (len(rows["rows"]), rows["left_out"]) == (2000, 3)


START = BEGIN.timestamp()


def test_the_axis_goes_from_the_first_time_in_the_queue_to_the_last_end() -> None:
    step = a_step("serving", a_job(60, 100, queued_s=60), a_job(200, 400))
    axis = build_axis(BuildFacts(build_steps=(step,)))

    assert axis is not None
    assert axis.begin == pytest.approx(START)
    assert axis.seconds == pytest.approx(600)
    assert axis.place(START + 300) == "50%"
    assert [tick["clock"] for tick in axis.ticks[:2]] == ["09:58", "10:00"]


@pytest.mark.parametrize(
    ("seconds", "offsets", "grid"),
    [
        (0, ["+0 s"], "100%"),
        (4, ["+0 s", "+1 s", "+2 s", "+3 s"], "25%"),
        (600, ["+0 min", "+2 min", "+4 min", "+6 min", "+8 min"], "20%"),
        (10 * 3600, ["+0 h", "+2 h", "+4 h", "+6 h", "+8 h"], "20%"),
        (24 * 86400, ["+0 d", "+3 d", "+6 d", "+9 d", "+12 d", "+15 d", "+18 d", "+21 d"], "12.5%"),
    ],
)  # fmt: skip
def test_ticks_stand_at_round_distances(seconds: float, offsets: list[str], grid: str) -> None:
    axis = build_axis(BuildFacts(build_steps=(a_step("serving", a_job(0, seconds)),)))

    assert axis is not None
    assert [tick["offset"] for tick in axis.ticks] == offsets
    assert (axis.grid, axis.took) == (grid, seconds)


def test_without_any_time_there_is_no_axis() -> None:
    assert build_axis(BuildFacts(build_steps=(a_step("s", a_job(began_at=None)),))) is None
    assert build_axis(BuildFacts()) is None


@pytest.mark.parametrize(
    "text",
    [None, "", "soon", "2026-11-21T09:58:12", "2026-13-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z", "\x00"],
)  # fmt: skip
def test_what_is_no_time_of_a_job_is_unknown(text: str | None) -> None:
    assert instant(text) is None


def test_a_job_that_ends_before_it_begins_by_another_clock_has_no_length() -> None:
    span = span_of(a_job(100, -40))

    assert wall_time(a_job(100, -40)) == 0
    assert span is not None
    assert span.end == span.begin
    assert wall_time(a_job(ended_at=None)) is None


@pytest.mark.parametrize("queued", [None, -1.0, float("inf"), float("nan"), 1e300])
def test_a_time_that_no_job_waits_is_unknown(queued: float | None) -> None:
    assert _attempts(a_step("s", a_job(queued_s=queued)))[0]["queued"] == "unknown"
    assert hours(queued) == "unknown"


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


def test_a_whole_build_has_neither_gaps_nor_causes() -> None:
    words = words_of(one_job())

    for title in ("Not everything is here", "Causes", "Only failures"):
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
