# SPDX-License-Identifier: Apache-2.0
"""Acts on streams: prints a report in the form that was asked for. Cheap to import."""

import sys
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from ci_doctor.model.report import Report

PrintedForm = Literal["text", "json", "sarif", "github"]


def print_report(
    report: "Report",
    stream: TextIO,
    form: PrintedForm,
    text: str | None = None,
    *,
    has_group: bool = False,
) -> None:
    """Print `report` on `stream`; `text` takes the place of the rendered text. Raises OSError.

    has_group: it stands in a group of the log already.
    """
    from ci_doctor.session.delivery import text_for, write_data

    if form == "json":
        from ci_doctor.render import json

        write_data(stream, json.render(report))
    elif form == "sarif":
        from ci_doctor.render import sarif

        write_data(stream, sarif.render(report))
    elif form == "github":
        from ci_doctor.render import lint_annotations

        write_data(stream, lint_annotations.render(report))
    else:
        from ci_doctor.session.log_stream import print_framed

        shown = text_for(report, stream) if text is None else text
        print_framed(report, stream, shown, has_group=has_group)


def say(text: str) -> None:
    """Print on stderr. Talk is not evidence: nothing depends on whether anybody can read it."""
    from ci_doctor.session.log_stream import harmless

    try:
        if sys.stderr is not None:
            _write(sys.stderr, harmless(text, sys.stderr))
    except OSError:
        return


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()
