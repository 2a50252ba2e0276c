# SPDX-License-Identifier: Apache-2.0
"""The annotation of a build through a real CommonMark renderer: a screen of text that stays text."""

import re

import cmarkgfm
import msgspec
import nh3
import pytest

from ci_doctor.build.build_metadata import causes_json
from ci_doctor.model.cause import RetryPolicy
from ci_doctor.model.facts.build import BuildFacts, CauseFacts, JobFacts, RetryWorth, StepFacts
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.outcome import Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.build_annotation import render
from tests.support.builders import a_report

PAGE = "ci-doctor-build/report.html"
HOSTILE = [
    "</details><script>alert(1)</script>",
    "a|b",
    "`x` **bold** [l](javascript:alert(1))",
    "<img src=x onerror=y>",
    "\x1b[31mred\x00\u202e",
    "line\n\n# heading\n| a | b |",
    "x" * 1_000_000,
    "$(touch pwned)",
]


def a_cause(title: str = "a disk is full", number: int = 1) -> CauseFacts:
    return CauseFacts(
        fingerprint=f"f{number}",
        title=title,
        remedy=f"free some space: {title}",
        retry=RetryPolicy.YES,
        is_outside=True,
        is_final=True,
        steps=("e2e",),
        jobs=2,
        seconds=620.0,
        gpu_seconds=None,
    )


def an_annotated_step(name: str = "e2e", number: int = 1, *, retry: RetryWorth | None = None) -> StepFacts:
    first = JobFacts(job=f"j{number}a", verdict="infra", summary=name, cause="f1", retry=retry)
    last = JobFacts(job=f"j{number}b", attempt=1, verdict="failed", summary=name, cause="f1")
    return StepFacts(name=name, verdict="failed", attempts=(first, last))


def a_build(*steps: StepFacts, causes: tuple[CauseFacts, ...] = (a_cause(),)) -> Report:
    facts = BuildFacts(build_steps=steps, causes=causes, cause_rule="build/cause")
    return msgspec.structs.replace(
        a_report(Verdict.FAILED, command="build"),
        summary="1 step: 1 failed",
        facts=msgspec.to_builtins(facts),
        findings=(),
    )


def shown(report: Report) -> str:
    page = cmarkgfm.github_flavored_markdown_to_html(
        render(report, page=PAGE),
        cmarkgfm.cmark.Options.CMARK_OPT_UNSAFE,
    )
    tags = {"p", "table", "thead", "tbody", "tr", "th", "td", "a", "strong", "details", "summary"}
    clean: str = nh3.clean(
        page, tags=tags | {"ul", "li", "code"}, url_schemes={"https", "artifact"}
    )
    return clean


def test_a_reader_sees_the_verdict_the_dearest_cause_its_jobs_and_the_page() -> None:
    page = shown(a_build(an_annotated_step(retry=RetryWorth.IN_VAIN)))

    assert "<strong>✗ FAILED</strong>" in page
    assert page.index("FAILED") < page.index("a disk is full")
    assert 'href="#j1b"' in page
    assert f'href="artifact://{PAGE}"' in page
    assert "10 min 20 s" in page
    assert "unknown" in page  # the GPU time
    assert "1 retry: 1 in vain." in page


def test_a_step_that_a_cause_ended_twice_is_named_once() -> None:
    page = shown(a_build(an_annotated_step()))
    row = page[page.index("10 min 20 s") : page.index("</table>")]

    assert '<a href="#j1b" rel="noopener noreferrer">e2e</a> (2 attempts)' in row
    assert row.count("e2e") == 1


def test_a_long_name_leaves_room_for_the_other_columns() -> None:
    page = shown(a_build(an_annotated_step("W" * 500, retry=RetryWorth.HID_A_FAILURE)))

    names = re.findall('<a href="#[^>]*>([^<]*)</a>', page)
    assert len(names) == 2
    assert all(70 < len(name) <= 80 for name in names)
    assert re.search("hid a failure of W{70,78}…", page)


def test_what_is_missing_stands_above_the_causes_and_a_cause_stands_there_once() -> None:
    missing = Finding(
        rule="build/missing-report", severity=Severity.ERROR, summary="e2e is missing"
    )
    cause = Finding(rule="build/cause", severity=Severity.ERROR, summary="a disk is full, twice")
    report = msgspec.structs.replace(a_build(an_annotated_step()), findings=(cause, missing))

    page = shown(report)

    assert page.index("e2e is missing") < page.index("a disk is full")
    assert "twice" not in page


def test_what_to_do_stands_before_the_tables() -> None:
    page = shown(a_build(an_annotated_step()))

    assert page.index("First:") < page.index("What to do") < page.index("free some space")
    assert page.index("free some space") < page.index("<table>")


def test_a_step_that_failed_softly_is_named_and_not_red() -> None:
    failed = JobFacts(job="j1", verdict="failed", summary="typos", cause="f1", soft_failed=True)
    step = StepFacts(name="docs", verdict="failed", attempts=(failed,))

    page = shown(a_build(step))

    assert "1 step failed softly (<code>soft_fail</code>): docs." in page
    assert "✗ FAILED</td>" not in page


def test_a_retry_that_hid_a_failure_is_named() -> None:
    page = shown(a_build(an_annotated_step("latency", retry=RetryWorth.HID_A_FAILURE)))

    assert "A retry hid a failure of latency." in page


def test_a_build_of_a_thousand_steps_stays_a_screen_with_one_artifact_link() -> None:
    steps = [an_annotated_step(f"step {number}", number) for number in range(1000)]
    causes = tuple(a_cause(f"cause {number}", number) for number in range(50))

    text = render(a_build(*steps, causes=causes), page=PAGE)

    assert len(text.splitlines()) < 60
    assert len(text.encode()) < 64 * 1024
    assert text.count("artifact://") == 1
    assert "44 more causes" in text
    assert "992 more steps" in text


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_stay_texts_and_leave_the_tables_whole(text: str) -> None:
    plain = shown(a_build(an_annotated_step("e2e"), causes=(a_cause("plain"),)))

    page = shown(a_build(an_annotated_step(text), causes=(a_cause(text),)))

    for tag in ("<table", "<tr", "<td", "<details", "</details", "<li", "<a "):
        assert page.count(tag) == plain.count(tag), tag
    assert "javascript:alert(1)</a>" not in page
    assert "\x1b" not in page
    assert len(page) < 64 * 1024


def test_a_job_id_that_is_no_id_is_no_link() -> None:
    step = an_annotated_step()
    job = msgspec.structs.replace(step.attempts[1], job='"><script>')

    page = render(a_build(msgspec.structs.replace(step, attempts=(job,))), page=PAGE)

    assert "<script>" not in page


def test_the_report_of_another_command_is_refused() -> None:
    report = msgspec.structs.replace(a_build(), facts={"build_steps": 3})

    with pytest.raises(ValueError, match="not the report of a build"):
        render(report)


def test_the_causes_in_the_meta_data_stay_below_a_kilobyte_and_the_dearest_stays() -> None:
    causes = tuple(a_cause("größe " * 40, number) for number in range(100))

    text = causes_json(BuildFacts(causes=causes))

    assert len(text.encode()) <= 1000
    assert msgspec.json.decode(text)[0] == {
        "fingerprint": "f0",
        "title": ("größe " * 40)[:80],
        "jobs": 2,
    }
    assert causes_json(BuildFacts()) == "[]"


def test_a_cause_with_a_long_fingerprint_does_not_make_the_meta_data_say_that_no_job_failed() -> (
    None
):
    cause = msgspec.structs.replace(a_cause("\x01" * 500, 1), fingerprint="\x02" * 500)

    text = causes_json(BuildFacts(causes=(cause,)))

    assert len(text.encode()) <= 1000
    assert [each["jobs"] for each in msgspec.json.decode(text)] == [2]
