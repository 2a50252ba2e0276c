# SPDX-License-Identifier: Apache-2.0
"""Acts on files and streams: writes a report to its directory and prints it."""

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from ci_doctor.errors import CiDoctorError
from ci_doctor.model.report import Report
from ci_doctor.render import RENDERERS, Renderer
from ci_doctor.system.files.writing import write_atomically


def write(report: Report, directory: Path, junit: str | None = None) -> tuple[str, ...]:
    """Write the file of each renderer that has something to show; `junit` is a `JunitForm`.

    Returns a sentence for each one that could not be written.
    """
    # All of them first: a bug in one form must not leave the others behind, as if all were well.
    texts = _texts(report, junit)
    problems = []
    for name, text in texts.items():
        try:
            write_atomically(directory / name, text.encode(), is_durable=False)
        except CiDoctorError as error:
            problems.append(error.message)
        except OSError as error:
            problems.append(f"cannot write {directory / name}: {error.strerror or error}")
    return tuple(problems)


def write_again(report: Report, directory: Path, junit: str | None = None) -> None:
    """Write what `report` has become; a file that cannot be replaced is removed.

    No file at all is better than one that says otherwise.
    """
    for name, text in _texts(report, junit).items():
        path = directory / name
        try:
            write_atomically(path, text.encode(), is_durable=False)
        except (CiDoctorError, OSError):
            # A directory in its place stays; it says nothing.
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _texts(report: Report, junit: str | None) -> dict[str, str]:
    """Each form of `report` that goes to a file, by its name."""
    texts = {}
    for renderer in RENDERERS:
        if renderer.file is not None and renderer.is_for(report):
            texts[renderer.file] = rendered(report, renderer, junit)
    return texts


def rendered(report: Report, renderer: Renderer, junit: str | None) -> str:
    """`report` by `renderer`; `junit` is the `JunitForm` if that one makes it."""
    if renderer.name != "junit":
        return renderer.render(report)
    from ci_doctor.render.junit import JunitForm, render

    return render(report, form=JunitForm(junit or JunitForm.VERDICT))


def text_for(report: Report, stream: TextIO) -> str:
    """The report as text, in the width and the colours of `stream`."""
    from ci_doctor.render import text

    # A file and a pipe have no width.
    if not stream.isatty():
        return text.render(report, width=80, colour=False)
    terminal = shutil.get_terminal_size((80, 24))
    # Longer lines are hard to read, however wide the terminal is.
    width = min(terminal.columns, 120)
    return text.render(report, width=width, colour=_may_colour(os.environ))


def _may_colour(environ: Mapping[str, str]) -> bool:
    """Whether a terminal with these variables may be sent colours."""
    # https://no-color.org: set to anything but the empty string.
    if environ.get("NO_COLOR"):
        return False
    # "dumb" knows no escape sequences (terminfo); without TERM nothing is known.
    return environ.get("TERM", "dumb") not in {"", "dumb"}


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
