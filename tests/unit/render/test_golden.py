# SPDX-License-Identifier: Apache-2.0
"""Every renderer against approved files, for every kind of ending; UPDATE_GOLDEN=1 approves anew."""

import pytest

from ci_doctor.render import RENDERERS, Renderer, json, junit, markdown, text
from ci_doctor.render.json import schema_text
from tests.support.builders import sample_reports
from tests.support.golden import assert_matches_golden

REPORTS = sample_reports()


@pytest.mark.parametrize("name", REPORTS)
def test_text(name: str) -> None:
    assert_matches_golden(text.render(REPORTS[name]), f"render/{name}.txt")


@pytest.mark.parametrize("name", REPORTS)
def test_text_in_colour(name: str) -> None:
    assert_matches_golden(text.render(REPORTS[name], colour=True), f"render/{name}.colour.txt")


@pytest.mark.parametrize("name", REPORTS)
def test_markdown(name: str) -> None:
    assert_matches_golden(
        markdown.render(REPORTS[name], artifacts="ci-doctor-report"), f"render/{name}.md"
    )


@pytest.mark.parametrize("name", REPORTS)
def test_junit(name: str) -> None:
    assert_matches_golden(junit.render(REPORTS[name]), f"render/{name}.xml")


@pytest.mark.parametrize("name", REPORTS)
def test_json(name: str) -> None:
    assert_matches_golden(json.render(REPORTS[name]), f"render/{name}.json")


def test_shipped_schema_is_that_of_the_types() -> None:
    assert_matches_golden(schema_text(), "../../ci_doctor/render/report.schema.json")


@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda renderer: renderer.name)
def test_every_form_is_rendered_and_the_same_each_time(renderer: Renderer) -> None:
    once = renderer.render(REPORTS["regression"])
    assert once == renderer.render(sample_reports()["regression"])
    assert once.endswith("\n")
    assert not once.endswith("\n\n")
