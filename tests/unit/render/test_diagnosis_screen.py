# SPDX-License-Identifier: Apache-2.0
"""The cause on a terminal: what a person must know, on one screen."""

import json
import re
import xml.etree.ElementTree as ET

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from msgspec import structs

from ci_doctor.model.cause import Cause, LogLine, RetryPolicy
from ci_doctor.render import json as report_json
from ci_doctor.render import junit, markdown, text
from ci_doctor.render.layout import widest
from ci_doctor.render.text import named_cause_json, named_cause_text
from tests.support.diagnoses import HOSTILE, LINES, a_cause, a_diagnosis, report_of


def a_named_cause(text: str = "cp: No space left", file: str = "a.log") -> Cause:
    return Cause(
        place=LogLine(file=file, line=7, text=text, message=text),
        rule="disk/full",
        class_="disk",
        title="disk",
        retry=RetryPolicy.YES,
        fingerprint="0123456789abcdef",
        explanation="The disk is full.",
        remedy="Free some space.",
        next_command=None,
    )


def test_it_names_the_place_the_class_and_what_to_do() -> None:
    text = named_cause_text(a_named_cause())

    assert text == "a.log:7  disk\n  cp: No space left\n  try: Free some space.\n\n"


def test_its_json_is_one_line() -> None:
    line = named_cause_json(a_named_cause("two\nlines", file="x\udcff.log"))

    assert line.count("\n") == 1
    cause = json.loads(line)
    assert (cause["class"], cause["place"]["line"]) == ("disk", 7)


def test_hostile_text_acts_on_no_terminal() -> None:
    shown = named_cause_text(a_named_cause(HOSTILE, file=HOSTILE[:100]))

    assert not set("\x1b\x00\x07\x9b\u202e\r") & set(shown)
    assert len(shown) < 2000


ACTING = "\x1b\x00\x07\x9b\u202e\r"


def screen(**changes: object) -> list[str]:
    return text.render(report_of(a_diagnosis(a_cause(**changes)))).split("\n")


def test_the_cause_comes_first_and_all_fits_a_screen() -> None:
    lines = screen()

    assert lines[0] == "server.log:10  program error  80 % sure, likely"
    assert lines[1] == "  ValueError: 40 heads for 3 GPUs"
    assert len(lines) <= 24
    assert widest(lines) <= 80


def test_the_excerpt_marks_the_cause_alone() -> None:
    marked = [line for line in screen() if line.startswith("  > ")]

    assert marked == ["  > 10 │ ValueError: 40 heads for 3 GPUs"]


def test_what_followed_and_what_to_do_are_named() -> None:
    shown = "\n".join(screen(next_command="ci-doctor setup-env"))

    assert "client.log:3  Connection refused" in shown
    assert "Begin at the innermost frame in your own code." in shown
    assert "Another run is useless" in shown
    assert "\n  ci-doctor setup-env\n" in shown
    assert "d36b44f3af775a6e" in shown


def test_colour_changes_no_word() -> None:
    report = report_of(a_diagnosis(a_cause()))

    painted = text.render(report, colour=True)

    assert "\x1b[" in painted
    assert text.render(report) == re.sub(r"\x1b\[[0-9;]*m", "", painted)


def test_a_long_path_is_not_broken() -> None:
    log = "logs/" + "deep/" * 20 + "job.log"
    lines = screen(place=LogLine(file=log, line=10, text=LINES[3]))

    assert lines[0] == f"{log}:10"
    assert lines[1].startswith("program error")


def test_damaged_facts_are_shown_as_any_report() -> None:
    report = report_of(a_diagnosis(a_cause()))
    damaged = structs.replace(report, facts={"root_cause": {"place": 7}})

    assert report.summary.partition(":")[0] in text.render(damaged)


@pytest.mark.parametrize("has_cause", [True, False])
def test_hostile_logs_act_in_no_form(has_cause: bool) -> None:
    place = LogLine(file=f"a{HOSTILE[:120]}.log", line=10, text=HOSTILE)
    cause = None
    if has_cause:
        cause = a_cause(place=place, explanation=HOSTILE, consequences=(place,), fields={})
    report = report_of(structs.replace(a_diagnosis(cause, HOSTILE), others=(place,)))

    for form in (text.render(report), markdown.render(report), junit.render(report)):
        assert not set(ACTING) & set(form)
    page = cmarkgfm.github_flavored_markdown_to_html(
        markdown.render(report), Options.CMARK_OPT_UNSAFE
    )
    assert "<b>" not in page
    assert len(markdown.render(report).encode()) <= 64 * 1024
    ET.fromstring(junit.render(report))
    assert report_json.parse(report_json.render(report)).findings == report.findings


def test_a_cause_is_a_failed_test_case_with_its_place() -> None:
    root = ET.fromstring(junit.render(report_of(a_diagnosis(a_cause()))))

    case = root.find("testsuite/testcase")
    assert case is not None
    assert (case.get("file"), case.get("line")) == ("server.log", "10")
    failure = case.find("failure")
    assert failure is not None
    assert "ValueError: 40 heads for 3 GPUs" in (failure.text or "")


def test_no_cause_is_a_skipped_test_case() -> None:
    root = ET.fromstring(junit.render(report_of(a_diagnosis(None))))

    assert root.find("testsuite/testcase/skipped") is not None


def test_without_a_cause_the_screen_says_so_and_where_to_begin() -> None:
    lines = text.render(report_of(a_diagnosis(None))).split("\n")

    assert lines[0].startswith("no cause is named")
    assert "Begin at server.log:10" in lines
    assert "  > 10 │ ValueError: 40 heads for 3 GPUs" in lines
    assert len(lines) <= 24
