# SPDX-License-Identifier: Apache-2.0
"""report.html is written where there is something to draw, and made of any report that was written."""

from pathlib import Path

import pytest

from ci_doctor.render import html, json
from ci_doctor.session.delivery import write
from ci_doctor.session.report_directory import lock_named
from ci_doctor.system.secrets.redaction import Redactor
from tests.support.builders import a_report, sample_reports
from tests.support.cli import doctor
from tests.support.pictures import aligned, modes

pytestmark = pytest.mark.integration


def test_the_page_lies_in_the_report_directory_where_there_is_a_matrix(tmp_path: Path) -> None:
    write(modes(), tmp_path / "modes")
    write(sample_reports()["flaky"], tmp_path / "plain")

    assert (tmp_path / "modes" / "report.html").read_text(encoding="utf-8") == html.render(modes())
    assert sorted(path.name for path in (tmp_path / "plain").iterdir()) == [
        "attempts.xml",
        "junit.xml",
        "report.json",
        "report.md",
    ]


def test_the_page_of_an_earlier_run_is_taken_away(tmp_path: Path) -> None:
    write(modes(), tmp_path)
    directory = lock_named(tmp_path)
    directory.clear()
    directory.release()

    assert list(tmp_path.iterdir()) == []


def test_no_secret_reaches_the_page(tmp_path: Path) -> None:
    facts = {
        **modes().facts,
        "aligned": [aligned(left="the token is s3cr3t-value", suspects=["s3cr3t-value"])],
    }
    report = Redactor(["s3cr3t-value"]).report(a_report(facts=facts, summary="s3cr3t-value"))
    write(report, tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")

    assert "s3cr3t" not in text
    assert "redacted" in text


@pytest.mark.parametrize("name", ["regression", "pass", "error"])
@pytest.mark.gate(1)
def test_any_written_report_is_made_a_page_of(name: str, tmp_path: Path) -> None:
    write(sample_reports()[name], tmp_path / "r")

    ran = doctor("report", tmp_path, "--format", "html", cwd=tmp_path)

    assert (ran.code, ran.err) == (0, ""), ran
    assert ran.out == html.render(
        json.parse((tmp_path / "r" / "report.json").read_text(encoding="utf-8"))
    )


def test_two_reports_make_no_page_and_the_hint_says_what_to_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(sample_reports()["pass"], tmp_path / name)

    ran = doctor("report", tmp_path, "--format", "html", cwd=tmp_path)

    assert (ran.code, ran.out) == (2, ""), ran
    assert "2 reports lie there" in ran.err
    assert "hint:" in ran.err
