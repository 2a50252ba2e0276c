# SPDX-License-Identifier: Apache-2.0
"""What a person sees in a terminal."""

import re
import unicodedata

import pytest
from hypothesis import given
from rich.cells import cell_len

from ci_doctor.model.outcome import (
    Attempt,
    Evidence,
    Failure,
    RemedyKind,
    Report,
    Severity,
    Verdict,
    text_table,
)
from ci_doctor.render import text
from ci_doctor.render.formatting import headline
from tests.support.builders import a_finding, a_report
from tests.unit.render.strategies import reports, whole

LONG = "vllm serve Qwen/Qwen2.5-14B-Instruct " + " ".join(
    f"--option-{number}=value" for number in range(20)
)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def test_error_detail_stands_whole_so_that_it_can_be_pasted() -> None:
    detail = "Traceback (most recent call last):\n" + "\n".join(
        f"  line {number} " + "x" * 120 for number in range(40)
    )
    shown = text.render(
        a_report(None, error=Failure(message="a bug", detail=detail), summary="a bug")
    )
    for line in detail.splitlines():
        assert f"  {line}\n" in shown


@pytest.mark.parametrize("width", [40, 80, 120])
def test_command_stays_on_one_line_however_long(width: int) -> None:
    report = a_report(
        Verdict.FLAKY,
        reproduce=LONG,
        findings=(a_finding(remedy=LONG, remedy_kind=RemedyKind.COMMAND),),
    )
    lines = text.render(report, width=width).splitlines()
    assert LONG in lines
    assert f"    {LONG}" in lines


def test_command_of_several_lines_keeps_them() -> None:
    shown = text.render(
        a_report(
            Verdict.FLAKY,
            reproduce="docker run \\\n  image",
            findings=(a_finding(remedy="a\nb", remedy_kind=RemedyKind.COMMAND),),
        )
    )
    assert "\nreproduce:\ndocker run \\\n  image\n" in shown
    assert "\n  try:\n    a\n    b\n" in shown


def test_sentence_as_a_remedy_is_wrapped_but_not_inside_its_command() -> None:
    command = "`python -m pip install --upgrade 'transformers>=4.51'`"
    shown = text.render(
        a_report(
            findings=(a_finding(remedy=f"make the versions agree by running {command} in the job"),)
        )
    )
    assert command in shown
    assert all(cell_len(line) <= 80 for line in shown.splitlines())


@pytest.mark.parametrize("width", [40, 60, 80])
def test_prose_keeps_to_the_width_also_with_wide_characters(width: int) -> None:
    words = "the cat sat on the mat 在垫子上 坐着 " * 10
    report = a_report(
        Verdict.FLAKY,
        summary=words,
        tables=(text_table(title="Words", lines=(words, "a    b")),),
        findings=(
            a_finding(
                summary=words,
                evidence=(Evidence(file="a.log", excerpt=f"{words}\n{'在' * 99} {'x' * 300}"),),
            ),
        ),
        attempts=(Attempt(name="在 1", outcome=words, ok=False, duration_s=1, log="a.log"),),
    )
    shown = text.render(report, width=width)
    assert all(cell_len(line) <= width for line in shown.splitlines())
    assert "\n  a    b\n" in shown


def test_columns_of_attempts_line_up_in_cells() -> None:
    attempts = [
        Attempt(name=name, outcome="OUT", ok=True, duration_s=time)
        for name, time in (("在垫子", 1), ("baseline 1", 100), ("b", 4000))
    ]
    rows = [
        line
        for line in text.render(a_report(Verdict.FLAKY, attempts=tuple(attempts))).splitlines()
        if "OUT" in line
    ]
    assert len({cell_len(row.split("OUT")[0]) for row in rows}) == 1


def test_long_lists_are_cut_and_say_so() -> None:
    evidence = tuple(Evidence(file=f"{number}.log") for number in range(9))
    attempts = tuple(
        Attempt(name=f"start {number}", outcome="answered", ok=True, duration_s=1)
        for number in range(33)
    )
    finding = a_finding(evidence=(Evidence(excerpt="\n".join("abcdefghijklmno")), *evidence))
    shown = text.render(a_report(Verdict.FLAKY, findings=(finding,), attempts=attempts))
    assert "… and 6 more places" in shown
    assert "… and 13 more in report.json" in shown
    assert "… 5 more lines" in shown


def test_the_number_that_a_list_left_out_is_not_cut_away() -> None:
    lines = [*(f"folder {number}" for number in range(10)), "and 239 more"]
    finding = a_finding(evidence=(Evidence(excerpt="\n".join(lines)),))
    shown = text.render(a_report(Verdict.FLAKY, findings=(finding,)))
    assert "and 239 more" in shown
    assert "more line" not in shown


def test_one_place_more_is_one_place() -> None:
    finding = a_finding(evidence=tuple(Evidence(file=f"{number}.log") for number in range(5)))
    shown = text.render(a_report(Verdict.FLAKY, findings=(finding,)))
    assert "… and 1 more place\n" in shown


def test_findings_come_worst_first() -> None:
    findings = tuple(
        a_finding(severity, summary=f"a {severity}") for severity in reversed(Severity)
    )
    shown = text.render(a_report(findings=findings))
    assert shown.index("a error") < shown.index("a warning") < shown.index("a note")


@whole
@given(reports())
def test_nothing_in_any_report_acts_on_the_terminal(report: Report) -> None:
    shown = text.render(report)
    head = headline(report)
    assert head is None or shown.startswith(f"{head.symbol} {head.word}")
    bad = {
        character
        for character in shown
        if unicodedata.category(character) in {"Cc", "Cs"} and character != "\n"
    }
    assert not bad | (set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"))
    assert COLOURS.sub("", text.render(report, colour=True)) == shown
