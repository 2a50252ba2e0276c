# SPDX-License-Identifier: Apache-2.0
"""Report -> str. Pure and deterministic: the same report gives the same bytes.

A renderer is a module with `render(report) -> str` and a row in `RENDERERS`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_doctor.model.outcome import Report


class Renderer(NamedTuple):
    """A form that a report can be read in.

    `file` is its name in a report's directory; None if it is only printed. `needs` names the facts
    of which one must be there, or there is nothing to show in this form; empty if it shows any
    report. `shows`: the same as a question about the whole report. `single`: a document that holds
    one report, so that several cannot be printed one after another. `function` of `module` makes it;
    the module is imported then: a page costs the import of jinja2.
    """

    name: str
    module: str
    function: str = "render"
    file: str | None = None
    needs: tuple[str, ...] = ()
    single: bool = False
    shows: "Callable[[Report], bool] | None" = None

    def render(self, report: "Report") -> str:
        """`report` in this form, with the renderer's own defaults; ends with a newline."""
        text: str = getattr(import_module(self.module), self.function)(report)
        return text

    def is_for(self, report: "Report") -> bool:
        """Whether `report` has what this form is there to show."""
        if self.shows is not None:
            return self.shows(report)
        return not self.needs or any(report.facts.get(name) for name in self.needs)


def has_attempts(report: "Report") -> bool:
    """Whether `report` holds more executions than its final results."""
    return len(report.attempts) > 1 or any(case.attempts for case in report.cases)


REPORT_FILE = "report.json"  # what the other forms are made from again
PAGE_FILE = "report.html"
# In the order in which the files are written: after a failure half-way the first ones are there.
RENDERERS = (
    Renderer("text", "ci_doctor.render.text"),
    Renderer("json", "ci_doctor.render.json", file=REPORT_FILE),
    Renderer("markdown", "ci_doctor.render.markdown", file="report.md"),
    Renderer("junit", "ci_doctor.render.junit", file="junit.xml"),
    Renderer(
        "attempts",
        "ci_doctor.render.junit",
        function="attempts",
        file="attempts.xml",
        shows=has_attempts,
    ),
    Renderer(
        "sarif",
        "ci_doctor.render.lint_report",
        file="report.sarif",
        needs=("lint_files",),
        single=True,
    ),
    Renderer(
        "html",
        "ci_doctor.render.html",
        file=PAGE_FILE,
        needs=("matrix", "build_steps", "history_strip", "tests", "watch"),
        single=True,
    ),
)


def renderer(name: str) -> Renderer:
    """The renderer called `name`. Raises KeyError."""
    for each in RENDERERS:
        if each.name == name:
            return each
    raise KeyError(name)


def report_files() -> tuple[str, ...]:
    """The names of all files that renderers write into a report's directory."""
    return tuple(each.file for each in RENDERERS if each.file is not None)
