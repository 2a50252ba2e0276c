# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor setup-env`."""

import os
from pathlib import Path
from typing import Any

import click

from ci_doctor.commands import exports_output
from ci_doctor.commands.documented import command, option
from ci_doctor.commands.environment_settings import read_job_settings
from ci_doctor.commands.failing_statement import print_failing_statement
from ci_doctor.commands.options import (
    config_option,
    dry_run_option,
    environment_options,
    output_options,
    pass_session,
)
from ci_doctor.environment.exports import ExportFormat, render
from ci_doctor.environment.preparation import Preparation, outcome, prepare, set_on_agent
from ci_doctor.environment.settings import SetupEnvSettings
from ci_doctor.session.session import Session
from ci_doctor.system.files.writing import write_atomically

# In the context's meta: the names of the exported variables, for a command that calls this one.
EXPORTED = "ci_doctor.exported"


@command(
    "setup-env",
    section="setup-env",
    examples={
        'exports=$(ci-doctor setup-env) && case $exports in\n  *CI_DOCTOR_PREPARED=*) eval "$exports" ;; *) false ;; esac || exit': "In a job: prepare, or end the job, with or without `set -e`.",
        "ci-doctor setup-env --determinism strict --dry-run": "Show what would be set and changed.",
    },
    exits={0: "prepared", 1: "the environment cannot be prepared as asked: nothing is exported"},
)
@environment_options
@option(
    "--format",
    "style",
    group="Exports",
    type=click.Choice([str(item) for item in ExportFormat]),
    default="shell",
    show_default=True,
    help="Format of the exports.",
)
@option(
    "--output",
    group="Exports",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the exports to this file instead of stdout.",
)
@config_option
@dry_run_option
@output_options
@pass_session
def setup_env(
    session: Session,
    /,
    *,
    style: str,
    output: Path | None,
    config_path: Path | None,
    dry_run: bool,
    **flags: Any,
) -> int:
    """Prepare a job's environment and print what to export.

    Pins versions, sets determinism variables and installs preload shims. If ci-doctor fails,
    it prints one statement that fails, or writes it to the file of --output. The first example ends
    the shell on any error, even if Python cannot start.
    """
    session.claim()
    settings, prepared = read_job_settings(session, config_path, os.environ, flags)
    preparation = _prepare(settings, dry_run=dry_run).for_job(prepared)
    text = render(preparation.exports, ExportFormat(style), preparation.comments)
    click.get_current_context().meta[EXPORTED] = tuple(preparation.exports)
    if output is not None:
        preparation = _with_output(preparation, output, text, dry_run=dry_run)
    # After the file: an error there leaves the agent's environment as it was.
    if not dry_run:
        findings = set_on_agent(preparation.exports, os.environ)
        preparation = preparation.with_findings(*findings)
    code = session.finish(outcome(preparation, dry_run=dry_run))
    # Last: a shell that evaluates our stdout must not see exports of a run that failed.
    if code:
        print_failing_statement(session.invocation.argv, code)
    elif output is None and not (dry_run or session.as_json):
        exports_output.write_exports(text, is_evaluated=style in ("shell", "fish"))
    return code


def _with_output(
    preparation: Preparation, output: Path, text: str, *, dry_run: bool
) -> Preparation:
    differs = exports_output.differs(text, output)
    # A file that is right already stays untouched, with its time of change.
    if differs and not dry_run:
        write_atomically(output, os.fsencode(text))
    return preparation.with_output(output, differs=differs)


def _prepare(settings: SetupEnvSettings, *, dry_run: bool) -> Preparation:
    if not settings.preload:
        return prepare(settings, os.environ)
    # Most jobs have no preload rule, and need not load that room.
    from ci_doctor.preload.injection import prepare_job

    return prepare_job(settings, os.environ, dry_run=dry_run)
