# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness replay`."""

from pathlib import Path

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.documented import command, option
from ci_doctor.commands.options import output_options, pass_session
from ci_doctor.errors import UsageError
from ci_doctor.session.session import Session


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
    from ci_doctor.correctness.report.replay import ReplayRequest
    from ci_doctor.correctness.report.replay import replay as shown
    from ci_doctor.model.facts.replay import ReplayFacts

    run = Path(run_directory)
    _refuse_overwriting(session, run)
    outcome = shown(ReplayRequest(run=run, request=request, starts=_names(starts)))

    session.claim()
    if isinstance(outcome.facts, ReplayFacts) and outcome.facts.unreadable_lines:
        lines = f"{outcome.facts.unreadable_lines} lines of the samples"
        click.echo(f"warning: {lines} cannot be read, and are left out", err=True)
    return session.finish(outcome, on_stdout=True)


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
