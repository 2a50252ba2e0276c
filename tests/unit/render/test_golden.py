# SPDX-License-Identifier: Apache-2.0
"""Every renderer against approved files, for every kind of ending; UPDATE_GOLDEN=1 approves anew."""

from collections.abc import Callable

import pytest

from ci_doctor.model.outcome import Report
from ci_doctor.render import RENDERERS, Renderer, json, junit, markdown, text
from ci_doctor.render.json import schema_text
from tests.support.builders import sample_reports
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
