# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor report`."""

import sys
from pathlib import Path

import click

from ci_doctor.commands.documented import REPORT, command, option
from ci_doctor.commands.options import output_options, pass_session
from ci_doctor.errors import UsageError
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.outcome import Report
from ci_doctor.render import RENDERERS, Renderer, renderer
from ci_doctor.session.printing import say
from ci_doctor.session.session import Session


@command(
    "report",
    examples={
        "ci-doctor report ci-doctor-report": "Print a report again.",
        "ci-doctor report reports --format markdown": "Print all reports below a directory as Markdown.",
    },
)
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path))
@option(
    "--format",
    "form",
    group=REPORT,
    type=click.Choice([each.name for each in RENDERERS]),
    default="text",
    show_default=True,
    help="The form to print.",
)
@option(
    "--publish",
    group="Buildkite",
    is_flag=True,
    help="On Buildkite: annotate the build, upload the files, set the meta-data.",
)
@output_options
@pass_session
def report(
    session: Session,
    /,
    *,
    directories: tuple[Path, ...],
    form: str,
    publish: bool,
) -> int:
    """Print the reports below DIRECTORIES again, or publish them.

    The exit code is 0, whatever the reports say.
    """
    from ci_doctor.session.delivery import read_reports

    if publish:
        _publish(directories)
        return ExitCode.PASS
    reports = read_reports(directories)
    if session.as_json:
        form = "json"
    chosen = renderer(form)
    _check(reports, directories, chosen)
    for _, each in reports:
        _print(each, chosen, session.junit)
    return ExitCode.PASS


def _publish(directories: tuple[Path, ...]) -> None:
    # An unreadable report is named, and the others of the job are published all the same.
    from ci_doctor.session.delivery import read_reports
    from ci_doctor.session.publishing import publish_all

    broken: list[str] = []
    reports = read_reports(directories, broken)
    for line in broken:
        say(f"{line}\n")
    for line in publish_all(reports, annotate=True):
        say(f"{line}\n")


def _check(
    reports: list[tuple[Path, Report]], directories: tuple[Path, ...], form: Renderer
) -> None:
    if not reports:
        names = ", ".join(map(str, directories))
        raise UsageError(
            f"no report.json below {names}",
            hint="name the --report-dir of a command",
        )
    if form.single and len(reports) > 1:
        raise UsageError(
            f"{len(reports)} reports lie there, and a page shows one",
            hint="name the directory of one of them",
        )


def _print(report: Report, form: Renderer, junit: str | None) -> None:
    from ci_doctor.session.delivery import rendered, text_for, write_data
    from ci_doctor.session.printing import harmless

    # Text alone depends on the terminal: its width, its colours, its encoding.
    if form.name == "text" and sys.stdout is not None:
        sys.stdout.write(harmless(text_for(report, sys.stdout), sys.stdout))
    else:
        write_data(sys.stdout, rendered(report, form, junit))
