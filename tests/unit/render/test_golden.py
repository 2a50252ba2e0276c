# SPDX-License-Identifier: Apache-2.0
"""Every renderer against approved files, for every kind of ending; UPDATE_GOLDEN=1 approves anew."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from ci_doctor.model.outcome import Report, Verdict
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
from tests.support.builders import a_report, sample_reports
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


def test_shipped_schema_is_that_of_the_types() -> None:
    assert_matches_golden(schema_text(), "../../ci_doctor/render/report.schema.json")


@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda renderer: renderer.name)
def test_every_form_is_rendered_and_the_same_each_time(renderer: Renderer) -> None:
    once = renderer.render(REPORTS["regression"])
    assert once == renderer.render(sample_reports()["regression"])
    assert once.endswith("\n")
    assert not once.endswith("\n\n")


@pytest.mark.parametrize("each", RENDERERS, ids=lambda each: each.name)
def test_each_is_found_by_its_name_and_renders(each: Renderer) -> None:
    assert renderer(each.name) is each
    assert each.render(a_report()).endswith("\n")


def test_files_have_names_of_their_own() -> None:
    assert len(set(report_files())) == len(report_files())
    assert report_files()[0] == REPORT_FILE


def test_a_page_is_for_reports_with_a_matrix_alone() -> None:
    page = renderer("html")
    assert not page.is_for(a_report(Verdict.REGRESSION))
    assert page.is_for(a_report(Verdict.REGRESSION, facts={"matrix": {"starts": []}}))
    assert renderer("json").is_for(a_report())


def test_a_renderer_is_imported_when_it_is_used() -> None:
    code = (
        "import sys; import ci_doctor.render\n"
        "print([name for name in sys.modules if name.startswith('ci_doctor.render.')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
