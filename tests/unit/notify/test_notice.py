# SPDX-License-Identifier: Apache-2.0
"""The three lines: verdict and step, cause, where to look."""

from msgspec import to_builtins

from ci_doctor.model.about import About
from ci_doctor.model.cause import Cause, LogLine
from ci_doctor.model.facts.build import BuildFacts, CauseFacts
from ci_doctor.model.finding import Severity
from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.verdict import Verdict
from ci_doctor.notify.notice import build_notice, step_notice
from ci_doctor.notify.place import NotifiedPlace
from tests.support.builders import a_finding, a_report

URL = "https://buildkite.com/acme/serving/builds/812"
PLACE = NotifiedPlace(step="e2e", identity="i", pipeline="p", url=f"{URL}#j1")


def a_record(**changes: object) -> JobRecord:
    fields = {"tool_version": "1", "about": About(), "verdict": "failed", "summary": "it ended"}
    return JobRecord(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_failing_step_names_its_first_finding() -> None:
    report = a_report(Verdict.FAILED, findings=(a_finding(summary="port 8000 is taken"),))

    assert step_notice([report], PLACE).lines == (
        "✗ FAILED · e2e",
        "port 8000 is taken",
        f"{URL}#j1",
    )


def test_the_cause_of_the_record_comes_first() -> None:
    cause = Cause(fingerprint="f", title="API drift", place=LogLine(message="TypeError: f() got …"))
    notice = step_notice([a_report(Verdict.PASS)], PLACE, a_record(cause=cause))

    assert notice.lines[:2] == ("✗ FAILED · e2e", "API drift: TypeError: f() got …")


def test_a_pass_says_its_summary_and_a_job_without_reports_that_ended_with_0_is_a_pass() -> None:
    warned = a_report(Verdict.PASS, findings=(a_finding(Severity.WARNING),))

    assert step_notice([warned], PLACE).lines[:2] == ("✓ PASS · e2e", warned.summary)
    silent = a_record(verdict="void", command_status=0)
    assert step_notice([], PLACE, silent).verdict == "pass"


def test_an_error_without_a_verdict_says_its_message() -> None:
    notice = step_notice([a_report(None)], PLACE)

    assert notice.verdict == "error"
    assert notice.cause.startswith("ci-doctor.toml:7: unknown key")


def test_a_report_that_judges_nothing_and_ends_with_0_is_no_error() -> None:
    plain = a_report(None, error=None, exit_code=0, summary="75: infra")

    assert step_notice([plain], PLACE).verdict == "pass"


def test_a_build_names_its_dearest_cause() -> None:
    cause = CauseFacts(
        fingerprint="f", title="disk full", place=LogLine(message="ENOSPC"), steps=("a",), jobs=2
    )
    facts = to_builtins(BuildFacts(causes=(cause,)))
    about = About(build=812, build_url=URL)
    report = a_report(Verdict.INFRA, facts=facts, about=about)

    assert build_notice(report, PLACE).lines == ("! INFRA · build 812", "disk full: ENOSPC", URL)


def test_what_acts_is_taken_out_and_what_is_long_is_cut() -> None:
    summary = "\x1b[31mred\x1b[0m\nline \x07" + "x" * 5000
    place = NotifiedPlace(
        step="s" * 500, identity="i", pipeline="p", url="javascript:alert(1)//x y"
    )
    report = a_report(Verdict.FAILED, summary=summary)

    notice = step_notice([report], place)

    assert notice.lines[2] == "the log of the job"
    assert all(line.isprintable() or "\ufffd" in line for line in notice.lines)
    assert notice.cause.startswith("red line")
    assert len(notice.cause) == 300
    assert len(notice.subject) == 120


def test_an_address_of_more_than_a_line_is_none() -> None:
    place = NotifiedPlace(
        step="s", identity="i", pipeline="p", url=f"https://a.example/{'x' * 2000}"
    )

    assert step_notice([a_report(Verdict.PASS)], place).url is None


def test_the_marker_is_of_the_step_and_holds_no_text_of_others() -> None:
    odd = NotifiedPlace(step="-->", identity="--> <script>", pipeline="p")
    report = a_report(Verdict.PASS)

    marker = step_notice([report], odd).marker

    assert marker.startswith("<!-- ci-doctor:notify:")
    assert marker.count("-->") == 1
    assert "script" not in marker
    assert marker != step_notice([report], PLACE).marker != build_notice(report, PLACE).marker
