# SPDX-License-Identifier: Apache-2.0
"""Acts on streams: prints a report in the form that was asked for. Cheap to import."""

import sys
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from ci_doctor.model.report import Report

PrintedForm = Literal["text", "json", "sarif"]


def print_report(
    report: "Report", stream: TextIO, form: PrintedForm, text: str | None = None
) -> None:
    """Print `report` on `stream`; `text` takes the place of the rendered text. Raises OSError."""
    from ci_doctor.session.delivery import text_for, write_data

    if form == "json":
        from ci_doctor.render import json

        write_data(stream, json.render(report))
    elif form == "sarif":
        from ci_doctor.render import sarif

        write_data(stream, sarif.render(report))
    elif text is not None:
        _write(stream, text)
    else:
        _write(stream, text_for(report, stream))


def say(text: str) -> None:
    """Print on stderr. Talk is not evidence: nothing depends on whether anybody can read it."""
    try:
        if sys.stderr is not None:
            _write(sys.stderr, text)
    except OSError:
        return


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()
