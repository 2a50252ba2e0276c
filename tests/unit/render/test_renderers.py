# SPDX-License-Identifier: Apache-2.0
"""The table of renderers: a row is all that a new one needs."""

import subprocess
import sys

import pytest

from ci_doctor.model.verdict import Verdict
from ci_doctor.render import RENDERERS, REPORT_FILE, Renderer, renderer, report_files
from tests.support.builders import a_report


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
