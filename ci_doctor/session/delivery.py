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
            text = renderer.render(report)
            write_atomically(directory / renderer.file, text.encode())


def text_for(report: Report, stream: TextIO) -> str:
    """The report as text, in the width and the colours of `stream`."""
    from ci_doctor.render import text

    # A file and a pipe have no width.
    if not stream.isatty():
        return text.render(report, width=80, colour=False)
    terminal = shutil.get_terminal_size((80, 24))
    # Longer lines are hard to read, however wide the terminal is.
    width = min(terminal.columns, 120)
    # https://no-color.org: set to anything but the empty string.
    colour = not os.environ.get("NO_COLOR")
    return text.render(report, width=width, colour=colour)


def write_data(stream: TextIO | None, text: str) -> None:
    """What programs read, as UTF-8 whatever the encoding of `stream`; None is a closed one."""
    if stream is None:
        return
    binary = getattr(stream, "buffer", None)
    # What was written as text comes first: it lies in a buffer above the binary one.
    stream.flush()
    if binary is None:  # a stream in memory
        stream.write(text)
    else:
        binary.write(text.encode())
    stream.flush()
