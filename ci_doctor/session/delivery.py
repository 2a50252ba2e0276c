# SPDX-License-Identifier: Apache-2.0
"""Acts on files and streams: writes a report to its directory and prints it."""

import os
import shutil
from pathlib import Path
from typing import TextIO

from ci_doctor.model.report import Report
from ci_doctor.session.report_directory import PAGE, REPORT_FILES
from ci_doctor.system.files.atomic import write_atomically


def write(report: Report, directory: Path) -> None:
    """report.json, report.md and junit.xml, and the page if the facts hold a matrix to draw. Raises UsageError, InfraError."""
    from ci_doctor.render import json, junit, markdown

    texts = (json.render(report), markdown.render(report), junit.render(report))
    for name, text in zip(REPORT_FILES, texts, strict=True):
        write_atomically(directory / name, text.encode())
    if report.facts.get("matrix"):
        from ci_doctor.render import html

        # The last: nothing else depends on it.
        write_atomically(directory / PAGE, html.render(report).encode())


def text_for(report: Report, stream: TextIO) -> str:
    """The report as text, in the width and the colours of `stream`."""
    from ci_doctor.render import text

    terminal = stream.isatty()
    colour = terminal and not os.environ.get("NO_COLOR")
    width = min(shutil.get_terminal_size((80, 24)).columns, 120) if terminal else 80
    return text.render(report, width=width, colour=colour)
