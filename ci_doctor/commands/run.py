# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor run -- CMD`."""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.environment_settings import read_job_settings
from ci_doctor.commands.options import (
    config_option,
    dry_run_option,
    environment_options,
    output_options,
    pass_session,
)
from ci_doctor.commands.separator import check_separator
from ci_doctor.environment.exports import PREPARED
from ci_doctor.environment.preparation import Preparation, outcome, prepare
from ci_doctor.environment.settings import SetupEnvSettings
from ci_doctor.session.session import Session


@click.command("run", context_settings={"allow_interspersed_args": False})
@environment_options
@config_option
@dry_run_option
@output_options
@click.argument(
    "command", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=values.separator
)
@pass_session
def run(
    session: Session,
    /,
    *,
    command: tuple[str, ...],
    config_path: Path | None,
    dry_run: bool,
    **flags: Any,
) -> int:
    """Prepare the same environment as setup-env, then become CMD: status and signals are CMD's own.

    Preload rules apply to CMD and its child processes; nothing is installed.
    """
    # A `--` of the command's own is enough to tell whose option is whose.
    if "--" not in session.invocation.argv:
        check_separator(session.invocation, command)
    session.claim()
    settings, prepared = read_job_settings(session, config_path, os.environ, flags)
    environ, preparation = _prepare(settings, command)
    preparation = preparation.for_job(prepared)
    code = session.finish(outcome(preparation, dry_run=dry_run))
    if dry_run or code:
        return code
    return become(command, {**environ, PREPARED: prepared})


def _prepare(
    settings: SetupEnvSettings, command: tuple[str, ...]
) -> tuple[dict[str, str], Preparation]:
    if not settings.preload:
        preparation = prepare(settings, os.environ)
        return {**os.environ, **preparation.exports}, preparation
    # Most jobs have no preload rule, and need not load that room.
    from ci_doctor.preload.job import prepare_command

    return prepare_command(settings, command, os.environ)


def become(command: tuple[str, ...], environ: Mapping[str, str]) -> int:
    """Replace this process by `command`.

    Returns only if that fails: 127 if the command does not exist and 126 if it cannot be run, as a
    shell does.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        # Python ignores these two at its start, and an ignored signal stays ignored across exec.
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, environ)  # noqa: S606 - becoming the command is the point
    except (FileNotFoundError, ValueError):  # ValueError: an empty name
        click.echo(f"error: {command[0]}: command not found", err=True)
        return 127
    except OSError as error:
        click.echo(f"error: {command[0]}: {error.strerror}", err=True)
        return 126
