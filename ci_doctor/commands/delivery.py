# SPDX-License-Identifier: Apache-2.0
"""Hands a report over: redacted, to the report directory and to the terminal."""

import os
import shutil
import sys
from pathlib import Path
from typing import TextIO

import click

from ci_doctor.errors import CiDoctorError, UsageError
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.report import Report
from ci_doctor.system.files.atomic import write_atomically
from ci_doctor.system.secrets.redaction import Redactor

WRITTEN = ("report.json", "report.md", "junit.xml")
PAGE = "report.html"  # where there is something to draw


def claim(directory: Path | None) -> None:
    """Make the report directory and take away what an earlier run left in it, before anything is started.

    Raises UsageError where it cannot be written: better now than after an hour of evidence.
    """
    if directory is None:
        return
    probe = directory / ".ci-doctor"
    write_atomically(probe, b"")
    try:
        for path in (probe, *(directory / name for name in (*WRITTEN, PAGE))):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot empty {directory}: {error}", hint="name another --report-dir"
        ) from error


def deliver(
    report: Report,
    *,
    as_json: bool,
    directory: Path | None,
    text_to: TextIO | None = None,
    redactor: Redactor | None = None,
) -> int:
    """Write the report's files, print it, and return its exit code.

    `text_to` is where people read it (stderr unless given); with `as_json` the JSON goes to stdout instead.
    `redactor` knows more secrets than the environment holds, where a command has some.
    A directory that cannot be written any more turns a 0 into 75, and no other code.
    """
    report = (redactor or Redactor.from_environment(os.environ)).report(report)
    code = report.exit_code
    if directory is not None:
        try:
            write(report, directory)
        except CiDoctorError as error:
            click.echo(f"error: {error.message}", err=True)
            code = code or ExitCode.INFRA
    if as_json:
        from ci_doctor.render import json

        click.echo(json.render(report).encode(), nl=False)
    else:
        show(report, text_to or sys.stderr)
    return int(code)


def write(report: Report, directory: Path) -> None:
    """report.json, report.md and junit.xml, and the page where the facts hold a matrix to draw."""
    from ci_doctor.render import json, junit, markdown

    for name, text in zip(
        WRITTEN, (json.render(report), markdown.render(report), junit.render(report)), strict=True
    ):
        write_atomically(directory / name, text.encode())
    if report.facts.get("matrix"):
        from ci_doctor.render import html

        # The last: it is the one that nothing else depends on.
        write_atomically(directory / PAGE, html.render(report).encode())


def show(report: Report, stream: TextIO | None) -> None:
    """The report as text, in the width and the colours of `stream` (None: closed by whoever started us)."""
    if stream is None:
        return
    from ci_doctor.render import text

    terminal = stream.isatty()
    colour = terminal and not os.environ.get("NO_COLOR")
    width = min(shutil.get_terminal_size((80, 24)).columns, 120) if terminal else 80
    click.echo(text.render(report, width=width, colour=colour), file=stream, nl=False, color=colour)
