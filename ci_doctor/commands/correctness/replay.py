# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness replay`."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.documented import command, option
from ci_doctor.commands.options import output_options, pass_session
from ci_doctor.errors import UsageError
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.correctness.report.replay import Line, Replay

# By the name of a mark (correctness/report/replay.py).
_STYLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "dim": {"dim": True},
    "strong": {"bold": True},
    "left": {"fg": "red", "bold": True},
    "right": {"fg": "green", "bold": True},
}


@command(
    "replay",
    examples={
        "ci-doctor correctness replay --run ci-doctor-report --request r17": "Show what every start answered to one request.",
        "ci-doctor correctness replay --run ci-doctor-report --request r17 --starts A1,B1": "Compare two starts.",
    },
)
@option(
    "--run",
    "run_directory",
    metavar="DIR",
    required=True,
    shell_complete=values.directories,
    help="The report directory of a run.",
)
@option("--request", metavar="ID", required=True, help="The request to show.")
@option(
    "--starts",
    metavar="A1,B1",
    help="Two starts, or one to compare its passes. [default: the pair that shows most]",
)
@output_options
@pass_session
def replay(session: Session, run_directory: str, request: str, starts: str | None) -> int:
    """Show one request of a run: what every start answered, and where two of the answers diverge.

    It starts no server. The exit code is 0, whatever the answers are.
    """
    from ci_doctor.correctness.report.replay import ReplayRequest, marked_replay

    run = Path(run_directory)
    _refuse_overwriting(session, run)
    width = _width()
    wanted = ReplayRequest(run=run, request=request, starts=_names(starts), width=width)
    shown = marked_replay(wanted)

    session.claim()
    if shown.unreadable:
        lines = f"{shown.unreadable} lines of the samples"
        click.echo(f"warning: {lines} cannot be read, and are left out", err=True)
    text = "\n".join(_lines(shown, width))
    return session.finish(shown.outcome, on_stdout=True, text=f"{text}\n")


def _refuse_overwriting(session: Session, run: Path) -> None:
    named = session.named_directory
    if named is not None and named.resolve() == run.resolve():
        # First of all: the report of this very error would overwrite the run's.
        session.protect()
        raise UsageError(
            "the run's own report would be overwritten", hint="name another --report-dir"
        )


def _names(starts: str | None) -> tuple[str, ...]:
    if starts is None:
        return ()
    names = tuple(map(str.strip, starts.split(",")))
    # An empty text splits into one empty name.
    if not starts or not 1 <= len(names) <= 2:
        raise UsageError(
            f"--starts {starts}: two starts can be compared", hint="such as --starts A1,B1"
        )
    return names


def _width() -> int:
    if not sys.stdout.isatty():
        return 80
    terminal = shutil.get_terminal_size((80, 24))
    return min(terminal.columns, 120)


def _lines(shown: "Replay", width: int) -> Iterator[str]:
    from ci_doctor.render.layout import wrap

    for text in wrap(shown.outcome.summary, width):
        yield _styled(text, "strong")
    for block in shown.blocks:
        yield ""
        yield _styled(block.title, "strong")
        for line in block.lines:
            yield _painted(line)


def _painted(line: "Line") -> str:
    painted = "  "
    for piece in line:
        painted += _styled(piece.text, piece.mark)
    return painted.rstrip()


def _styled(text: str, mark: str) -> str:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return click.style(text, **_STYLES[mark])
