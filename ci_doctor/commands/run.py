# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor run -- CMD`."""

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import click

from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.options import config_option, dry_run_option, environment_options, output_options
from ci_doctor.commands.preparation import prepare, read_settings
from ci_doctor.commands.setup_env import describe
from ci_doctor.errors import UsageError


@click.command("run", context_settings={"allow_interspersed_args": False})
@environment_options
@config_option
@dry_run_option
@output_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def run(
    invocation: Invocation,
    /,
    *,
    command: tuple[str, ...],
    config_path: Path | None,
    dry_run: bool,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - invocation.report_directory knows it
    **flags: Any,
) -> int:
    """Prepare the same environment as setup-env, then become CMD: its status and its signals are CMD's own."""
    if "--" not in invocation.argv:
        # Without it a reader could not tell whose option `--json` is.
        words = shlex.join(["ci-doctor", *invocation.argv[: -len(command)], "--", *command])
        raise UsageError("`--` is missing before the command", hint=f"write: {words}")
    directory = invocation.report_directory
    claim(directory)
    preparation = prepare(read_settings(config_path, os.environ, flags), os.environ, dry_run=dry_run)
    code = deliver(describe(preparation, invocation, dry_run=dry_run), as_json=as_json, directory=directory)
    if dry_run or code:
        return code
    return become(command, {**os.environ, **preparation.exports})


def become(command: tuple[str, ...], environ: dict[str, str]) -> int:
    """Replace this process by `command`; 127 where it does not exist and 126 where it cannot be run, as a shell does."""
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
