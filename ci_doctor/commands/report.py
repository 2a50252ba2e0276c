# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor report`."""

import os
import sys
from pathlib import Path

import click

from ci_doctor.commands.delivery import show
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.options import output_options
from ci_doctor.errors import UsageError
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.report import Report


@click.command("report")
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "junit", "json", "html"]),
    default="text",
    show_default=True,
)
@click.option(
    "--publish",
    is_flag=True,
    help="On Buildkite: annotate the build, upload the files, set the meta-data.",
)
@output_options
@click.pass_obj
def report(
    invocation: Invocation,  # noqa: ARG001
    directories: tuple[Path, ...],
    form: str,
    publish: bool,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - taken as everywhere, but a report on reports is not kept
) -> int:
    """Print reports below DIRECTORIES again, in any form, or publish them. Always exits with 0."""
    broken: list[str] | None = [] if publish else None
    reports = read_reports(directories, broken)
    if publish:
        for line in (*(broken or ()), *publish_all(reports, annotate=True)):
            click.echo(line, err=True)
        return ExitCode.PASS
    if not reports:
        raise UsageError(
            f"no report.json below {', '.join(map(str, directories))}",
            hint="name the --report-dir of a command",
        )
    form = "json" if as_json else form
    if form == "html" and len(reports) > 1:
        raise UsageError(
            f"{len(reports)} reports lie there, and a page shows one",
            hint="name the directory of one of them",
        )
    for _, found in reports:
        _print(found, form)
    return ExitCode.PASS


def read_reports(
    directories: tuple[Path, ...], broken: list[str] | None = None
) -> list[tuple[Path, Report]]:
    """Every report.json below `directories`, oldest first, each with its directory.

    Raises UsageError for one that cannot be read, or appends a line to `broken` where that is given.
    """
    from ci_doctor.render import json

    files = sorted({path for directory in directories for path in directory.rglob("report.json")})
    found = []
    for path in files:
        try:
            found.append((path.parent, json.parse(path.read_text(encoding="utf-8"))))
        except (UsageError, OSError, UnicodeDecodeError) as error:
            if broken is None:
                raise UsageError(
                    f"{path}: {error}", hint="name the --report-dir of a command that ended"
                ) from error
            broken.append(f"ci-doctor: {path} is not published: {error}")
    return sorted(found, key=lambda each: each[1].started_at)


def publish_all(reports: list[tuple[Path, Report]], *, annotate: bool) -> list[str]:
    """Publish on Buildkite; a line for each thing that did not work. Never raises for the agent's failures."""
    from ci_doctor.buildkite.agent import Agent
    from ci_doctor.buildkite.job import JobEnvironment
    from ci_doctor.buildkite.publish import publish
    from ci_doctor.render import markdown

    job, agent = JobEnvironment.from_environ(os.environ), Agent.find(os.environ)
    if job is None or agent is None:
        return [
            "ci-doctor: not a Buildkite job, or no buildkite-agent on PATH: nothing is published"
        ]
    results = publish(
        reports,
        job,
        agent,
        lambda found, folder: markdown.render(found, artifacts=folder),
        markdown.annotation_style,
        annotate=annotate,
    )
    return [f"ci-doctor: {result.message}" for result in results if not result.ok]


def _print(found: Report, form: str) -> None:
    from ci_doctor.render import Format, render

    if form == "text":
        show(found, sys.stdout)
    else:
        click.echo(render(found, Format(form)).encode(), nl=False)
