# SPDX-License-Identifier: Apache-2.0
"""Pure. Report -> one HTML file, which its Content-Security-Policy lets load nothing."""

from ci_doctor.model.outcome import Report
from ci_doctor.render.html import build_page, report_page


def render(report: Report) -> str:
    """`report` as a page of HTML, ending with a newline.

    Every text in it is escaped and printable; the only script and style that a browser takes are
    the page's own, by their hash. The facts of a build and of a history have pages of their own. What `facts` holds
    for a picture is drawn, and left out if it is missing or of another form.
    """
    for render_special in (build_page.render, report_page.render_history):
        page = render_special(report)
        if page is not None:
            return page
    return report_page.render(report)
