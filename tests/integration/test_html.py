# SPDX-License-Identifier: Apache-2.0
"""report.html is written where there is something to draw, and made of any report that was written."""

from pathlib import Path

import pytest

from ci_doctor.render import html, json
from ci_doctor.session.delivery import write
from ci_doctor.session.report_directory import lock_named
from tests.support.builders import sample_reports
from tests.support.cli import inside
from tests.support.pictures import modes

pytestmark = pytest.mark.integration


def test_the_page_lies_in_the_report_directory_where_there_is_a_matrix_until_the_next_run(
    tmp_path: Path,
) -> None:
    write(modes(), tmp_path / "modes")
    write(sample_reports()["flaky"], tmp_path / "plain")

    assert (tmp_path / "modes" / "report.html").read_text(encoding="utf-8") == html.render(modes())
    assert sorted(path.name for path in (tmp_path / "plain").iterdir()) == [
        "attempts.xml",
        "junit.xml",
        "report.json",
        "report.md",
    ]
    next_run = lock_named(tmp_path / "modes")
    next_run.clear()
    next_run.release()
    assert list((tmp_path / "modes").iterdir()) == []


@pytest.mark.parametrize("name", ["regression", "pass", "error"])
@pytest.mark.gate(1)
def test_any_written_report_is_made_a_page_of(name: str, tmp_path: Path) -> None:
    write(sample_reports()[name], tmp_path / "r")

    ran = inside("report", tmp_path, "--format", "html", cwd=tmp_path)

    assert (ran.code, ran.err) == (0, ""), ran
    assert ran.out == html.render(
        json.parse((tmp_path / "r" / "report.json").read_text(encoding="utf-8"))
    )


def test_two_reports_make_no_page_and_the_hint_says_what_to_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(sample_reports()["pass"], tmp_path / name)

    ran = inside("report", tmp_path, "--format", "html", cwd=tmp_path)

    assert (ran.code, ran.out) == (2, ""), ran
    assert "2 reports lie there" in ran.err
    assert "hint:" in ran.err
