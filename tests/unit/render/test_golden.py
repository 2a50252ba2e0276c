# SPDX-License-Identifier: Apache-2.0
"""Every renderer against approved files, for every kind of ending; UPDATE_GOLDEN=1 approves anew."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from ci_doctor.model.outcome import Report, Table, Verdict, row
from ci_doctor.render import (
    RENDERERS,
    REPORT_FILE,
    Renderer,
    json,
    junit,
    markdown,
    renderer,
    report_files,
    text,
)
from ci_doctor.render.json import schema_text
from tests.support.builders import a_finding, a_report, sample_reports
from tests.support.golden import assert_matches_golden

REPORTS = sample_reports()


FORMS: dict[str, Callable[[Report], str]] = {
    "txt": text.render,
    "colour.txt": lambda report: text.render(report, colour=True),
    "md": lambda report: markdown.render(report, artifacts="ci-doctor-report"),
    "xml": junit.render,
    "json": json.render,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", REPORTS)
def test_a_form_is_the_approved_one(name: str, form: str) -> None:
    assert_matches_golden(FORMS[form](REPORTS[name]), f"render/{name}.{form}")


@pytest.mark.parametrize("form", ["txt", "md"])
def test_a_table_that_is_an_aside_stands_below_the_findings(form: str) -> None:
    aside = Table(title="Not run", rows=(row("gpu", "no GPU"),), is_aside=True)
    first = Table(title="Arms", rows=(row("baseline", 1),))

    shown = FORMS[form](a_report(Verdict.FAILED, findings=(a_finding(),), tables=(aside, first)))

    places = [shown.index(word) for word in ("Arms", a_finding().rule, "Not run")]
    assert places == sorted(places)


def test_shipped_schema_is_that_of_the_types() -> None:
    assert_matches_golden(schema_text(), "../../ci_doctor/render/report.schema.json")


@pytest.mark.parametrize("each", RENDERERS, ids=lambda each: each.name)
def test_every_form_is_found_by_its_name_and_the_same_each_time(each: Renderer) -> None:
    assert renderer(each.name) is each
    once = each.render(REPORTS["regression"])
    assert once == each.render(sample_reports()["regression"])
    assert once.endswith("\n")
    assert not once.endswith("\n\n")


def test_files_have_names_of_their_own() -> None:
    assert len(set(report_files())) == len(report_files())
    assert report_files()[0] == REPORT_FILE


def test_a_renderer_is_imported_when_it_is_used() -> None:
    code = (
        "import sys; import ci_doctor.render\n"
        "print([name for name in sys.modules if name.startswith('ci_doctor.render.')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
