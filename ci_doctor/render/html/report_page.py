# SPDX-License-Identifier: Apache-2.0
"""Pure. The page of one report."""

from msgspec.structs import replace

from ci_doctor.model.report import Report
from ci_doctor.render.headline import worst_first
from ci_doctor.render.html.drawing import drawn
from ci_doctor.render.html.templating import page, sheet
from ci_doctor.render.links import links
from ci_doctor.render.safe_text import cleaned


def render(report: Report) -> str:
    """`report` as a page of HTML, ending with a newline."""
    # Without the facts, which are most of a large report and reach the page by `drawn` alone.
    shown = cleaned(replace(report, facts={}))
    values = {
        "subject": shown.command,
        "findings": worst_first(shown),
        "links": links(shown.about),
        # From the facts as they are: their control characters are to be shown, not removed.
        "drawn": drawn(report.facts),
    }
    style = sheet("style.css.j2")
    script = sheet("script.js.j2")
    return page("page.html.j2", shown, style=style, script=script, values=values)
