# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor report`."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from ci_doctor.commands.documented import REPORT, command, option, output_options, pass_session
from ci_doctor.errors import UsageError
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.outcome import Report
from ci_doctor.render import PAGE_FILE, RENDERERS, REPORT_FILE, Renderer, renderer
from ci_doctor.render.formatting import listed, printable
from ci_doctor.session.printing import say
from ci_doctor.session.report_directory import ROOT_VARIABLE
from ci_doctor.session.session import Session
from ci_doctor.system.files.access import near_path, open_at_once


@command(
    "report",
    examples={
        "ci-doctor report ci-doctor-report": "Print a report again.",
        "ci-doctor report --open": "Show the newest report in a browser.",
        "ci-doctor report reports --format markdown": "Print all reports below a directory as Markdown.",
    },
)
@click.argument("directories", nargs=-1, metavar="[DIRECTORY]…", type=click.Path(path_type=Path))
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
    "--open",
    "opens",
    group=REPORT,
    is_flag=True,
    help="Show the page in a browser; it is made if there is none.",
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
    opens: bool,
    publish: bool,
) -> int:
    """Print the reports below each DIRECTORY again, show one, or publish them.

    Without a DIRECTORY it is the newest report here. The exit code is 0, whatever the reports say.
    """
    from ci_doctor.session.delivery import read_reports

    if publish:
        if opens or not directories:
            raise UsageError(
                "--publish needs a DIRECTORY, and goes without --open",
                hint="name the folders of this job's reports",
            )
        _publish(directories)
        return ExitCode.PASS
    is_newest = not directories
    directories = directories or (_newest(Path(os.environ.get(ROOT_VARIABLE) or ".")),)
    reports = read_reports(directories)
    if is_newest:
        # A report may lie in a folder of another one.
        reports = [each for each in reports if each[0] == directories[0]] or reports
    if session.as_json:
        form = "json"
    chosen = renderer("html" if opens else form)
    _check(reports, directories, chosen)
    if opens:
        page = _page(*reports[0])
        open_page(page, os.environ)
        click.echo(f"opened {printable(str(page))}")
        return ExitCode.PASS
    for directory, each in reports:
        _print(each, directory, chosen, session.junit)
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
        missing = (near_path(each) for each in directories if not each.exists())
        near = next(missing, None)
        raise UsageError(
            f"no report.json below {names}",
            hint=near or "name the directory that a command prints behind `report:`",
        )
    if form.single and len(reports) > 1:
        raise UsageError(
            f"{len(reports)} reports lie there, and a page shows one",
            hint=f"name one of {listed([str(directory) for directory, _ in reports])}",
        )


def _newest(root: Path) -> Path:
    """The directory of the newest report in `root`, or one or two levels below it.

    Raises UsageError if there is none.
    """
    found = [
        path
        for depth in ("", "*/", "*/*/")
        for path in root.glob(f"{depth}{REPORT_FILE}")
        if _is_own(path)
    ]
    if not found:
        raise UsageError(
            f"no report lies here: there is no {REPORT_FILE} in {root}, nor two levels below it",
            hint="name the directory that a command printed behind `report:`",
        )
    return max(found, key=lambda each: each.stat().st_mtime_ns).parent


def _is_own(path: Path) -> bool:
    """Whether a file is a report of ours: other programs call theirs `report.json`, too."""
    try:
        # A pipe of that name is not waited for.
        descriptor = open_at_once(path)
    except OSError:
        return False
    try:
        return b'"ci-doctor/report/' in os.read(descriptor, _HEAD_BYTES)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _page(directory: Path, report: Report) -> Path:
    """The report's page, which is made of it if a command wrote none. Raises UsageError."""
    from ci_doctor.system.files.access import write_atomically

    page = directory / PAGE_FILE
    if not page.is_file():
        write_atomically(page, renderer("html").render(report).encode())
    return page


# A report begins with its schema.
_HEAD_BYTES = 200
# Programs that show a page where a desktop is; the first one decides by the user's choice.
_BROWSERS = ("xdg-open", "wslview", "sensible-browser", "firefox", "chromium", "google-chrome")
# So long a program may take to say that it cannot; one that shows the page may stay.
_REFUSES_WITHIN_S = 5.0


def open_page(
    page: Path, environ: Mapping[str, str], *, refuses_within_s: float = _REFUSES_WITHIN_S
) -> None:
    """Show the file `page` in a browser, and do not wait until that is closed.

    `$BROWSER` counts first, as for other programs. Raises UsageError if none can show it.
    """
    copy = "copy the file to a machine with a browser, or read it here: "
    hint = copy + shlex.join(["ci-doctor", "report", str(page.parent)])
    command = _browser(environ)
    if command is None:
        has_display = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
        why = "no browser is on PATH" if has_display else "there is no display here"
        raise UsageError(f"{page} cannot be shown: {why}", hint=hint)
    address = page.resolve().as_uri()
    words = [word.replace("%s", address) for word in command]
    if words == command:
        words.append(address)
    try:
        # Neither this terminal nor its signals: a browser outlives the command.
        started = subprocess.Popen(
            words,
            env={**environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise UsageError(
            f"{page} cannot be shown: {command[0]}: {error.strerror}", hint=hint
        ) from error
    try:
        status = started.wait(refuses_within_s)
    except subprocess.TimeoutExpired:
        # It shows the page, and is nobody's child to wait for.
        status = started.returncode = 0
    if status:
        raise UsageError(f"{page} cannot be shown: {command[0]} ended with {status}", hint=hint)


def _browser(environ: Mapping[str, str]) -> list[str] | None:
    """The command that shows an address, in place of `%s` or behind it; None if there is none."""
    for each in environ.get("BROWSER", "").split(os.pathsep):
        try:
            command = shlex.split(each.strip().removesuffix("&"))
        except ValueError:  # a quote that is not closed
            continue
        if command and shutil.which(command[0], path=environ.get("PATH")):
            return command
    if sys.platform == "darwin":
        return ["open"]
    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return None
    return next(
        ([name] for name in _BROWSERS if shutil.which(name, path=environ.get("PATH"))), None
    )


def _print(report: Report, directory: Path, form: Renderer, junit: str | None) -> None:
    from ci_doctor.session.delivery import page_in, rendered, text_for, write_data
    from ci_doctor.session.printing import harmless

    # Text alone depends on the terminal: its width, its colours, its encoding.
    if form.name == "text" and sys.stdout is not None:
        page = printable(str(page_in(directory)))
        sys.stdout.write(harmless(text_for(report, sys.stdout, page), sys.stdout))
    else:
        write_data(sys.stdout, rendered(report, form, junit))
