# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor run -- CMD`."""

import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.legacy import legacy
from ci_doctor.commands.options import (
    config_option,
    dry_run_option,
    environment_options,
    output_options,
)
from ci_doctor.commands.preparation import Preparation, prepare, read_settings
from ci_doctor.commands.setup_env import describe
from ci_doctor.errors import UsageError
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.table import text_table


@click.command("run", context_settings={"allow_interspersed_args": False})
@environment_options
@config_option
@dry_run_option
@output_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@legacy
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
    """Prepare the same environment as setup-env, then become CMD: status and signals are CMD's own.

    Preload rules apply to CMD and its child processes; nothing is installed. With them no project
    is needed here.
    """
    if "--" not in invocation.argv:
        # Without it a reader could not tell whose option `--json` is.
        words = shlex.join(["ci-doctor", *invocation.argv[: -len(command)], "--", *command])
        raise UsageError("`--` is missing before the command", hint=f"write: {words}")
    directory = invocation.report_directory
    claim(directory)
    settings = read_settings(config_path, os.environ, flags)
    if settings.preload and not flags["projects"] and not _has_project_here(settings.projects):
        settings = replace(settings, projects=())
    preparation = prepare(replace(settings, preload=()), os.environ, dry_run=dry_run)
    environ = {**os.environ, **preparation.exports}
    if settings.preload:
        environ, preparation = injected(settings.preload, command, environ, preparation)
    code = deliver(
        describe(preparation, invocation, dry_run=dry_run), as_json=as_json, directory=directory
    )
    if dry_run or code:
        return code
    return become(command, environ)


def _has_project_here(projects: Sequence[str]) -> bool:
    """Whether the projects are others than the one that may be in the working directory, or it is there."""
    from ci_doctor.environment.detection import has_project

    return [Path(project).resolve() for project in projects] != [Path.cwd()] or has_project(
        Path.cwd()
    )


def _instead(why: str | None, texts: Sequence[str]) -> str:
    """What to do where a Python is not reached for the reason `why`."""
    if why and why.startswith("-S"):
        return "start it without -S: no shim works with it"
    return f"install the shim, which works there: ci-doctor preload install {shlex.join(texts)}"


def injected(
    texts: Sequence[str],
    command: Sequence[str],
    environ: Mapping[str, str],
    preparation: Preparation,
) -> tuple[dict[str, str], Preparation]:
    """The environment in which CMD and its children preload, with nothing installed, and the preparation that says so.

    Raises UsageError for a bad rule.
    """
    from ci_doctor.preload.injection import with_rules
    from ci_doctor.preload.isolation import isolation
    from ci_doctor.preload.preload_rule import format_rule
    from ci_doctor.preload.presets import rules_of

    rules = rules_of(texts)
    lines = (
        *(f"rule {format_rule(rule)}" for rule in rules),
        "for this command and what it starts, by PYTHONPATH; a Python with -I, -E or -S is not reached",
    )
    why = isolation(command, environ)
    escaped = Finding(
        rule="preload/not-reached",
        severity=Severity.WARNING,
        summary=f"{command[0]} starts a Python with {why}: it will not preload",
        remedy=_instead(why, texts),
    )
    told = replace(
        preparation,
        tables=(*preparation.tables, text_table(title="Preload", lines=lines)),
        findings=(*preparation.findings, *((escaped,) if why else ())),
        changed=(*preparation.changed, "PYTHONPATH"),
        facts={**preparation.facts, "preload": [format_rule(rule) for rule in rules]},
    )
    return with_rules(environ, rules), told


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
