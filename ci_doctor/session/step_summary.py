# SPDX-License-Identifier: Apache-2.0
"""Acts on a file: appends a report to the summary of a GitHub Actions step."""

import contextlib
import os
import stat
from collections.abc import Mapping

from ci_doctor.model.report import Report

VARIABLE = "GITHUB_STEP_SUMMARY"
# Of one step; the upload of a larger file is aborted, and nothing of it is shown.
# https://docs.github.com/actions/reference/workflow-commands-for-github-actions#step-isolation-and-limits
LIMIT_BYTES = 1024 * 1024
_REPORT_BYTES = 64 * 1024


def append_summary(report: Report, environ: Mapping[str, str]) -> None:
    """Append the Markdown of `report`, which has no secrets any more, to the step's summary.

    Nothing if there is none, if the report is of no interest, or if there is no room for it. A
    failure changes nothing: the report stands in the log, too.
    """
    path = environ.get(VARIABLE)
    if not path or environ.get("GITHUB_ACTIONS") != "true":
        return
    from ci_doctor.render.ci_frame import is_of_interest

    if is_of_interest(report):
        # A bug in this form must not take the report away, which has been printed.
        with contextlib.suppress(Exception):
            _append(report, path)


def _append(report: Report, path: str) -> None:
    from ci_doctor.render import markdown

    # Not blocking: opening a pipe that nobody reads would wait for ever.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        room = min(_REPORT_BYTES, LIMIT_BYTES - status.st_size - 2)
        if not stat.S_ISREG(status.st_mode) or room < markdown.SMALLEST:
            return
        # No link: `artifact://` is Buildkite's.
        text = markdown.render(report, max_bytes=room, artifacts=None)
        # An empty line before it: what stands there may be a paragraph or a table.
        os.write(descriptor, f"\n{text}\n".encode())
    finally:
        os.close(descriptor)
