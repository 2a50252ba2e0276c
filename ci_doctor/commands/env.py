# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor env`, and the commands below it."""

import os
import sys
from pathlib import Path

import click

from ci_doctor.commands.documented import (
    PYTHON_OPTION,
    REPORT,
    VENV_OPTION,
    Group,
    config_option,
    option,
    output_options,
    pass_session,
)
from ci_doctor.errors import UsageError
from ci_doctor.session.session import Session


@click.group(
    "env",
    examples={
        "ci-doctor env snapshot -o green.json": "Record this machine.",
        "ci-doctor env diff green.json red.json": "Name what changed.",
    },
    cls=Group,
)
def env() -> None:
    """Record what may decide a result, and name what changed."""


@env.command(
    "snapshot",
    section="doctor",
    examples={
        "ci-doctor env snapshot -o green.json": "Record this machine.",
        "ci-doctor env snapshot --venv .venv --hash-files -o green.json": "Record the contents of a virtual environment, too.",
    },
)
@option(
    "-o",
    "--output",
    group=REPORT,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the snapshot to this file. [default: environment.json in --report-dir, or stdout]",
)
@option(
    "--hash-files",
    is_flag=True,
    help="Read the contents of all installed files, too: finds what was changed after "
    "installation.",
)
@option(
    "--step", metavar="KEY", help="The step that the snapshot is of. [default: $BUILDKITE_STEP_KEY]"
)
@VENV_OPTION
@PYTHON_OPTION
@config_option
@output_options
@pass_session
def snapshot(
    session: Session,
    /,
    *,
    output: Path | None,
    hash_files: bool,
    step: str | None,
    venvs: tuple[str, ...],
    pythons: tuple[str, ...],
    config_path: Path | None,
) -> int:
    """Record packages, drivers, limits and variables, without secrets.

    What cannot be read is listed as unknown with the reason. Compare two with `ci-doctor env diff`.
    """
    directory = session.claim()

    from msgspec.structs import replace

    from ci_doctor.commands.run_record import snapshot_request
    from ci_doctor.drift.compare import snapshot_outcome
    from ci_doctor.drift.reading import take_snapshot
    from ci_doctor.drift.snapshot import SNAPSHOT_FILE, encoded, write_snapshot
    from ci_doctor.session.delivery import write_data

    if output is None and directory is not None:
        output = directory / SNAPSHOT_FILE
    if output is None and session.as_json:
        raise UsageError("--json needs a file for the snapshot", hint="name one with -o FILE")
    flags = {"venvs": venvs, "pythons": pythons}
    request = snapshot_request(session, config_path, flags)
    about = replace(request.about, step=step or request.about.step)
    taken = take_snapshot(replace(request, about=about, has_contents=hash_files)).snapshot
    if output is None:
        write_data(sys.stdout, encoded(taken).decode())
        return os.EX_OK
    write_snapshot(taken, output)
    return session.finish(snapshot_outcome(taken, str(output)))


@env.command(
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
@click.argument(
    "before",
    metavar="A",
    type=click.Path(path_type=Path),
)
@click.argument(
    "after",
    metavar="B",
    type=click.Path(path_type=Path),
)
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

    from ci_doctor.drift.compare import ALL_AREAS, compare, diff_outcome, verdict_on_request
    from ci_doctor.drift.snapshot import read_snapshot
    from ci_doctor.model.facts.preparing import ChangeArea
    from ci_doctor.session.delivery import ExitPolicy

    chosen = frozenset(ChangeArea(area) for area in areas) or ALL_AREAS
    sources = (str(before), str(after))
    drift = compare(read_snapshot(before), read_snapshot(after), chosen, sources=sources)
    if decides:
        session.policy = ExitPolicy(unjudged_as=verdict_on_request(drift))
    outcome = diff_outcome(drift, show_all=show_all)
    return session.finish(outcome, on_stdout=True)
