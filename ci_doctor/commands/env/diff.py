# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor env diff`."""

from pathlib import Path

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.documented import command, option
from ci_doctor.commands.options import output_options, pass_session
from ci_doctor.session.session import Session


@command(
    "diff",
    examples={
        "ci-doctor env diff green.json red.json": "Name what changed.",
        "ci-doctor env diff green/ red/ --only packages --exit-code": "Let changed packages end the job.",
    },
    exits={
        0: "whatever differs, without --exit-code",
        1: "--exit-code: something differs that can change a result",
        86: "--exit-code: one side does not know such a fact",
    },
)
@click.argument("before", metavar="A", type=click.Path(path_type=Path), shell_complete=values.files)
@click.argument("after", metavar="B", type=click.Path(path_type=Path), shell_complete=values.files)
@option(
    "--only",
    "areas",
    type=click.Choice(["packages", "machine", "variables", "system"]),
    multiple=True,
    help="Compare this part alone. Repeatable.",
)
@option("--all", "show_all", is_flag=True, help="Print every difference.")
@option(
    "--exit-code",
    "decides",
    is_flag=True,
    help="End with 1 if something differs that can change a result, and with 86 if one side does "
    "not know such a fact. [default: 0 whatever differs]",
)
@output_options
@pass_session
def diff(
    session: Session,
    /,
    *,
    before: Path,
    after: Path,
    areas: tuple[str, ...],
    show_all: bool,
    decides: bool,
) -> int:
    """Name what changed from A to B, the most suspicious first.

    A and B are files of `ci-doctor env snapshot`, or report directories.
    """
    session.claim()

    from ci_doctor.drift.compare import ALL_AREAS, compare
    from ci_doctor.drift.outcome import diff_outcome, verdict_on_request
    from ci_doctor.drift.snapshot_file import read_snapshot
    from ci_doctor.model.facts.drift import ChangeArea
    from ci_doctor.session.exit_policy import ExitPolicy

    chosen = frozenset(ChangeArea(area) for area in areas) or ALL_AREAS
    sources = (str(before), str(after))
    drift = compare(read_snapshot(before), read_snapshot(after), chosen, sources=sources)
    if decides:
        session.policy = ExitPolicy(unjudged_as=verdict_on_request(drift))
    outcome = diff_outcome(drift, show_all=show_all)
    return session.finish(outcome, on_stdout=True)
