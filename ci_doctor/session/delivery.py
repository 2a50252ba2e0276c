# SPDX-License-Identifier: Apache-2.0
"""Acts on files and streams: writes a report to its directory and prints it."""

import os
import shutil
from pathlib import Path
from typing import TextIO

from ci_doctor.model.report import Report
from ci_doctor.render import RENDERERS
from ci_doctor.system.files.atomic import write_atomically


def write(report: Report, directory: Path) -> None:
    """Write the file of each renderer that has something to show. Raises UsageError, InfraError."""
    for renderer in RENDERERS:
        if renderer.file is not None and renderer.is_for(report):
            write_atomically(directory / renderer.file, renderer.render(report).encode())


def text_for(report: Report, stream: TextIO) -> str:
    """The report as text, in the width and the colours of `stream`."""
    from ci_doctor.render import text

    terminal = stream.isatty()
    colour = terminal and not os.environ.get("NO_COLOR")
    width = min(shutil.get_terminal_size((80, 24)).columns, 120) if terminal else 80
    return text.render(report, width=width, colour=colour)


def write_data(stream: TextIO, text: str) -> None:
    """What programs read, as UTF-8 whatever the encoding of `stream`."""
    binary = getattr(stream, "buffer", None)
    stream.flush()
    if binary is None:  # a stream in memory
        stream.write(text)
    else:
        binary.write(text.encode())
    stream.flush()
