# SPDX-License-Identifier: Apache-2.0
"""The section on caches of a step's annotation."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_doctor.model.cause import Cause, LogLine
from ci_doctor.model.facts.build import EarlierAttempt, JobRecord
from ci_doctor.model.outcome import (
    NO_VERDICT,
    About,
    Evidence,
    Finding,
    RemedyKind,
    Report,
    Severity,
    Table,
    Verdict,
    row,
    size,
)
from ci_doctor.render.step_annotation import (
    StepResult,
    caches_section,
    is_about_caches,
    is_worth_showing,
    render,
    step_style,
)
from tests.support.annotated_page import AnnotatedPage, shown
from tests.support.builders import a_finding, a_report, sample_reports
from tests.support.builds import a_job
from tests.support.diagnoses import a_cause, a_diagnosis, report_of
from tests.unit.render.strategies import HOSTILE, TEXT, reports

BUILD = "https://buildkite.com/o/p/builds/1514"
JOB = "0190046e-e199-453b-a302-a21a4d649d31"
PAGE = f"{JOB}/diagnose/report.html"
ABOUT = About(build=1514, build_url=BUILD, job=JOB, step="e2e", attempt=0)
SETUP = a_report(command="setup-env", summary="2 projects pinned", duration_s=4.2)
DIAGNOSIS = report_of(a_diagnosis(a_cause()))
DISK_FULL = EarlierAttempt(
    attempt=0,
    verdict="infra",
    cause="disk full: No space left on device",
    exit_status=75,
    job="0190-earlier",
)
# What somebody may write into a label, a branch, a log or the meta-data of a build.
NASTY = (
    *HOSTILE,
    "</details><script>alert(1)</script>",
    "$(touch /tmp/owned)",
    "](javascript:alert(1))",
    "<a href='javascript:alert(1)'>x</a>",
    "a | b || c",
    "`a` ``b`` ```c```",
    "\u202egnp.exe",
    ":rotating_light:",
    "x" * 1_000_000,
)


def a_record(verdict: str = Verdict.FAILED, **changes: Any) -> JobRecord:
    record = a_job("serving", verdict="failed", seconds=432.0)
    own = {"about": ABOUT, "verdict": verdict, "summary": "the command ended with status 1"}
    return replace(record, **{**own, **changes})


def a_step(*reports: Report, earlier: tuple[EarlierAttempt, ...] = (), **record: Any) -> StepResult:
    return StepResult(record=a_record(**record), reports=reports, earlier=earlier, page=PAGE)


def a_retry(*reports: Report, **record: Any) -> StepResult:
    about = replace(ABOUT, attempt=1)
    return a_step(*reports, earlier=(DISK_FULL,), about=about, **record)


def page_of(step: StepResult) -> AnnotatedPage:
    return shown(render(step))


def test_a_failure_is_explained_from_its_verdict_to_its_reproduction() -> None:
    page = page_of(a_step(SETUP, DIAGNOSIS))

    order = [
        "Failed: the command ended with status 1",
        ":pytest: serving · 7 min 12 s",
        "Cause: program error, server.log:10",
        "> 10 | ValueError: 40 heads for 3 GPUs",
        "Next: Begin at the innermost frame in your own code.",
        "Another run is useless",
        "Reproduce:",
        "bash ci/serving.sh",
        "✓ setup-env 2 projects pinned (4.2 s)",
        "· diagnose program error",
    ]
    places = [page.text.index(each) for each in order]
    assert places == sorted(places)
    assert page.links == [f"artifact://{PAGE}", f"{BUILD}#{JOB}"]


def test_what_followed_and_the_other_findings_are_folded() -> None:
    page = page_of(a_step(SETUP, DIAGNOSIS, sample_reports()["regression"]))

    assert "client.log:3 Connection refused" in page.folded
    assert "vLLM in batch-invariant mode" in page.folded
    assert "Fingerprint of the cause: d36b44f3af775a6e" in page.folded
    assert "Connection refused" not in page.unfolded


def test_an_explained_failure_is_at_most_a_screen() -> None:
    page = page_of(a_retry(SETUP, DIAGNOSIS))

    assert len(page.unfolded.splitlines()) <= 30


def test_a_pass_is_two_lines() -> None:
    page = page_of(a_step(SETUP, verdict=Verdict.PASS, command_status=0, exit_status=0))

    assert page.text.strip().splitlines() == [
        "✓ Passed",
        ":pytest: serving · 7 min 12 s · report of setup-env · log",
        "✓ setup-env 2 projects pinned (4.2 s)",
    ]


def test_a_regression_shows_its_evidence_and_the_command_of_its_report() -> None:
    page = page_of(a_step(SETUP, sample_reports()["regression"], verdict=Verdict.REGRESSION))

    assert "Regression: the change is at fault, a baseline proves it" in page.text
    assert "Finding: request r17 gets another answer from the candidate" in page.text
    assert "baseline   …the cat sat on the mat" in page.text
    assert "Reproduce:\nci-doctor correctness --baseline" in page.text
    assert "bash ci/serving.sh" not in page.text


def test_a_usage_error_shows_its_hint() -> None:
    error = a_report(None, command="setup-env")
    page = page_of(a_step(error, verdict=NO_VERDICT, command_status=None, exit_status=2))

    assert "the job ended with 2" in page.text
    assert "unknown key comand in [services.vllm]" in page.text
    assert "Try: did you mean command?" in page.text


def test_a_status_that_was_mapped_stands_beside_that_of_the_command() -> None:
    page = page_of(a_step(DIAGNOSIS, verdict=Verdict.INFRA, exit_status=75))

    assert "Infrastructure: the cause lies outside the change" in page.text
    assert "the command ended with 1, the job with 75" in page.text


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (1, "the command ended with status 1"),
        (137, "the command ended with status 137, as after SIGKILL"),
        (255, "the command ended with status 255"),
        (-1, "a signal ended the command"),
    ],
)
def test_the_ending_of_a_command_is_put_in_words(status: int, words: str) -> None:
    page = page_of(a_step(command_status=status, exit_status=status % 256))

    assert page.text.splitlines()[0] == f"✗ Failed: {words}"
    assert "option diagnose of the plugin names the logs" in page.text


def test_logs_without_a_cause_show_where_to_begin() -> None:
    page = page_of(a_step(report_of(a_diagnosis(None))))

    assert (
        "No cause is named: no line of the logs explains it by itself, server.log:10" in page.text
    )
    assert "> 10 | ValueError: 40 heads for 3 GPUs" in page.text


def test_the_cause_of_the_record_is_shown_with_its_lines_from_the_report_that_names_it() -> None:
    cause = Cause(fingerprint="d36b44f3af775a6e", title="program error")
    other = report_of(a_diagnosis(a_cause(fingerprint="another", explanation="not this one")))

    page = page_of(a_step(other, DIAGNOSIS, cause=cause))

    assert "Fingerprint of the cause: d36b44f3af775a6e" in page.folded


def test_a_cause_that_only_the_record_knows_is_shown() -> None:
    cause = Cause(
        fingerprint="f",
        title="disk full",
        place=LogLine(file="build.log", line=12, message="No space left on device"),
        remedy="Free some space.",
    )

    page = page_of(a_step(SETUP, cause=cause))

    assert "Cause: disk full, build.log:12" in page.text
    assert "No space left on device" in page.text
    assert "Next: Free some space." in page.text


@pytest.mark.parametrize("damaged", [{"root_cause": 3}, {"diagnosis": [1]}, {"root_cause": {}}])
def test_damaged_facts_name_no_cause(damaged: dict[str, Any]) -> None:
    page = page_of(a_step(replace(DIAGNOSIS, facts=damaged, findings=())))

    assert "Cause:" not in page.text
    assert "Failed: the command ended with status 1" in page.text


def test_a_retry_says_what_the_attempt_before_it_was_with_a_link_to_its_job() -> None:
    page = page_of(a_retry(DIAGNOSIS))

    assert (
        "Attempt 2. Attempt 1: infrastructure, disk full: No space left on device, exit status 75, log."
        in page.text
    )
    assert f"{BUILD}#0190-earlier" in page.links


def test_a_retry_that_passes_says_so_and_is_green() -> None:
    step = a_retry(SETUP, verdict=Verdict.PASS, command_status=0, exit_status=0)

    assert "Passed on attempt 2. Attempt 1: infrastructure, disk full" in page_of(step).text
    assert step_style(step) == "success"


def test_a_retry_that_passes_without_a_report_is_green_too() -> None:
    step = a_retry(verdict=Verdict.VOID, command_status=0, exit_status=0)

    assert is_worth_showing(step)
    assert step_style(step) == "success"
    assert page_of(step).text.startswith("✓ Passed\n")
    assert "Passed on attempt 2." in page_of(step).text


def test_an_attempt_that_nobody_heard_of_is_unknown() -> None:
    about = replace(ABOUT, attempt=6)
    page = page_of(a_step(SETUP, about=about, earlier=(replace(DISK_FULL, attempt=4),)))

    assert (
        "Attempt 7. 2 earlier ones are not shown. Attempt 3: nothing is known of it." in page.text
    )
    assert "Attempt 5: infrastructure" in page.text


@pytest.mark.parametrize("job", ["javascript:alert(1)", "a b", '"><script>', "x" * 65])
def test_a_job_that_is_no_id_is_not_linked(job: str) -> None:
    page = page_of(a_step(SETUP, earlier=(replace(DISK_FULL, job=job),)))

    assert page.links == [f"artifact://{PAGE}", f"{BUILD}#{JOB}"]


def test_a_build_without_a_safe_address_is_linked_from_its_own_page() -> None:
    about = replace(ABOUT, build_url="javascript:alert(1)")

    assert page_of(a_step(SETUP, about=about)).links[1] == f"#{JOB}"


@pytest.mark.parametrize(
    ("record", "is_shown"),
    [
        ({"verdict": "void", "command_status": 0, "exit_status": 0}, False),
        ({"verdict": "pass", "command_status": 0, "exit_status": 0}, False),
        ({"verdict": "failed"}, True),
        ({"verdict": "error", "is_cancelled": True}, False),
        ({"verdict": "error", "is_cancelled": True, "is_timed_out": True}, True),
        ({"verdict": "error", "command_status": None}, True),
    ],
)
def test_a_job_without_reports_is_shown_if_it_failed(
    record: dict[str, Any], is_shown: bool
) -> None:
    assert is_worth_showing(a_step(**record)) is is_shown
    assert is_worth_showing(a_step(SETUP, **record))


@pytest.mark.parametrize(
    ("record", "style"),
    [
        ({"verdict": "pass", "command_status": 0}, "success"),
        ({"verdict": "flaky"}, "warning"),
        ({"verdict": "infra"}, "warning"),
        ({"verdict": "nondeterministic"}, "warning"),
        ({"verdict": "regression"}, "error"),
        ({"verdict": "failed"}, "error"),
        ({"verdict": "inconclusive"}, "error"),
        ({"verdict": "void"}, "error"),
        ({"verdict": "void", "command_status": 0}, "error"),
        ({"verdict": "error"}, "error"),
        ({"verdict": "of a later version"}, "error"),
        ({"verdict": "pass", "is_cancelled": True}, "warning"),
        ({"verdict": "pass", "is_timed_out": True}, "error"),
    ],
)
def test_style_says_how_urgent_it_is(record: dict[str, Any], style: str) -> None:
    step = a_step(SETUP, **record)

    assert step_style(step) == style
    assert ("Passed" in page_of(step).text) is (style == "success")


@pytest.mark.parametrize("nasty", NASTY, ids=lambda text: ascii(text[:20]))
def test_hostile_text_stays_text_wherever_it_stands(nasty: str) -> None:
    text = f"before {nasty} after"
    finding = a_finding(
        summary=text,
        evidence=(Evidence(file=text, line=1, excerpt=text),),
        remedy=text,
        remedy_kind=RemedyKind.ADVICE,
    )
    hostile = a_report(
        Verdict.FAILED,
        command=text,
        summary=text,
        reproduce=text[:900],
        findings=(finding, replace(finding, severity=Severity.NOTE, summary=f"also {text}")),
    )
    about = replace(ABOUT, build_url=text, job=text, step=text, branch=text, attempt=1)
    record = a_record(about=about, label=text, summary=text, command=text[:900])
    earlier = (EarlierAttempt(attempt=0, verdict=text, cause=text, job=text),)
    step = StepResult(record=record, reports=(hostile, hostile), earlier=earlier, page=text)
    plain = replace(
        step,
        record=a_record(about=replace(about, step="plain"), label="plain"),
        earlier=(EarlierAttempt(attempt=0, verdict="plain", cause="plain"),),
    )

    for page in (page_of(step), page_of(plain)):
        assert page.links == []
        assert page.tags.count("details") == 1
        assert page.tags.count("pre") == 2
        assert page.tags.count("li") == 4
        assert page.tags.count("strong") == 5


def test_an_emoji_of_the_label_is_meant_and_one_of_a_log_is_not() -> None:
    page = page_of(a_step(a_report(Verdict.FAILED, summary="it :fire: burns")))

    assert page.emojis == ["pytest"]
    assert "it :fire: burns" in page.text


def test_as_much_as_there_can_be_takes_less_than_64_kib() -> None:
    wide = "在" * 500
    finding = a_finding(summary=wide, evidence=(Evidence(file=wide, excerpt=f"{wide}\n" * 12),))
    findings = tuple(replace(finding, summary=f"{number} {wide}") for number in range(30))
    several = [a_report(Verdict.FAILED, command=wide, summary=wide, findings=findings)] * 40
    earlier = tuple(replace(DISK_FULL, attempt=number, cause=wide) for number in range(50))
    about = replace(ABOUT, attempt=50)
    record = a_record(label=wide, command="$" * 1000, summary=wide, about=about)

    body = render(StepResult(record=record, reports=tuple(several), earlier=earlier))

    assert 10_000 < len(body.encode()) < 64 * 1024
    assert "see the full report" in shown(body).folded
    assert "20 more reports: see the artifacts" in shown(body).folded


@settings(max_examples=15)
@given(st.lists(reports(), max_size=2), TEXT, st.sampled_from([*Verdict, NO_VERDICT]))
def test_no_reports_break_out_or_take_too_much_room(
    several: list[Report], text: str, verdict: str
) -> None:
    record = a_record(verdict=verdict, label=text, summary=text, command=text)
    step = StepResult(record=record, reports=tuple(several), earlier=(DISK_FULL,), page=PAGE)

    body = render(step)

    assert len(body.encode()) <= 64 * 1024
    page = shown(body)
    assert len([link for link in page.links if link.startswith("artifact:")]) <= 1
    assert "```term" not in body


@pytest.mark.parametrize("how", ["is_cancelled", "is_timed_out"])
def test_how_a_job_was_stopped_is_said_once(how: str) -> None:
    changes = {"verdict": "error", "command_status": None, how: True}
    page = page_of(a_retry(summary="the job was stopped, says its record", **changes))

    assert "says its record" not in page.text
    assert "Attempt 1: infrastructure" in page.unfolded


INERT = Finding(
    rule="cache/inert",
    severity=Severity.WARNING,
    summary="vllm: restored, but the library chose another directory: /x",
    evidence=(Evidence(excerpt="env.VLLM_USE_V1 1 -> 0"),),
)
TABLE = Table(title="Caches", columns=("effect", "sent"), rows=(row("vllm", "inert", size(5000)),))
CACHES = replace(
    a_report(),
    command="cache",
    verdict=None,
    summary="vllm inert; 5 kB fetched",
    tables=(TABLE,),
    findings=(INERT,),
)


def test_a_job_with_nothing_but_caches_passes_and_has_one_section() -> None:
    step = a_step(CACHES, verdict=Verdict.VOID, command_status=0, exit_status=0)
    annotated = page_of(step)

    assert step_style(step) == "success"
    assert "Passed" in annotated.unfolded
    assert annotated.unfolded.count("vllm inert; 5 kB fetched") == 1
    assert annotated.tags.count("table") == 1
    assert "env.VLLM_USE_V1 1 -> 0" in annotated.folded
    assert "Void" not in annotated.text


def test_a_job_that_failed_is_explained_by_other_reports_and_the_section_comes_last() -> None:
    annotated = page_of(a_step(CACHES))

    assert "Finding:" not in annotated.text
    assert annotated.unfolded.rstrip().endswith("Caches: vllm inert; 5 kB fetched")


def test_a_report_that_judges_is_no_part_of_the_section() -> None:
    refused = replace(CACHES, verdict=Verdict.FAILED, summary="vllm was refused")

    assert not is_about_caches(refused)
    assert caches_section([refused, a_report()]) == ""
    assert "Finding: vllm" in page_of(a_step(refused)).unfolded


def test_whoever_calls_the_commands_by_hand_gets_one_section_too() -> None:
    annotated = page_of(a_step(*(replace(CACHES, summary=f"part {n}") for n in range(3))))

    assert "Caches: part 0; part 1; part 2" in annotated.unfolded
    assert annotated.tags.count("details") == 1


def test_a_section_of_any_size_fits() -> None:
    rows = tuple(row("x" * 500, "y" * 500, size(1)) for _ in range(200))
    long = replace(CACHES, tables=(replace(TABLE, rows=rows),), findings=(INERT,) * 500)

    section = caches_section([long])

    assert len(section.encode()) < 12_000
    assert "more: see the report" in shown(section).folded
