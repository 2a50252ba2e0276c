# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor env snapshot`."""

import os
import sys
from pathlib import Path

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.documented import REPORT, command, option
from ci_doctor.commands.options import (
    PYTHON_OPTION,
    VENV_OPTION,
    config_option,
    output_options,
    pass_session,
)
from ci_doctor.errors import UsageError
from ci_doctor.session.session import Session


@command(
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
    shell_complete=values.files,
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

    from ci_doctor.commands.environment_record import snapshot_request
    from ci_doctor.drift.outcome import snapshot_outcome
    from ci_doctor.drift.reading import take_snapshot
    from ci_doctor.drift.snapshot_file import SNAPSHOT_FILE, encoded, write_snapshot
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
