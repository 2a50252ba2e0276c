# SPDX-License-Identifier: Apache-2.0
"""Report -> str. Pure and deterministic: the same report gives the same bytes."""

from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from ci_doctor.model.report import Report


class Format(StrEnum):
    """The forms that a report can be read in."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    HTML = "html"


def render(report: "Report", form: Format) -> str:
    """`report` in `form`, with that renderer's own defaults. Only the renderer asked for is imported."""
    match form:
        case Format.TEXT:
            from ci_doctor.render import text

            return text.render(report)
        case Format.JSON:
            from ci_doctor.render import json

            return json.render(report)
        case Format.MARKDOWN:
            from ci_doctor.render import markdown

            return markdown.render(report)
        case Format.JUNIT:
            from ci_doctor.render import junit

            return junit.render(report)
        case Format.HTML:
            from ci_doctor.render import html

            return html.render(report)
        case _ as never:
            assert_never(never)
