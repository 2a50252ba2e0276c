# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor setup-env`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from ci_doctor.commands import exports_output
from ci_doctor.commands.documented import (
    command,
    config_option,
    dry_run_option,
    environment_options,
    load_configuration,
    option,
    output_options,
    pass_session,
)
from ci_doctor.commands.exports_output import print_failing_statement
from ci_doctor.config.decoding import DEFAULT, decode_section, path_in
from ci_doctor.environment.detection import has_project
from ci_doctor.environment.determinism import SetupEnvSettings
from ci_doctor.environment.exports import ExportFormat, render
from ci_doctor.environment.preparation import (
    Preparation,
    outcome,
    prepare,
    prepared_value,
    set_on_agent,
)
from ci_doctor.session.session import Session
from ci_doctor.system.files.access import write_atomically


def read_job_settings(
    session: Session,
    config_path: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    *,
    keeps_missing: bool = False,
) -> tuple[SetupEnvSettings, str]:
    """The settings, with the paths of a file made relative to the working directory.

    Without a Python project there, and without a word about projects, none is left, unless
    `keeps_missing`. With them comes the value of CI_DOCTOR_PREPARED, which later commands of the job
    compare. The session gets the repository's own exit codes. Raises ConfigError.
    """
    loaded = load_configuration(session, config_path)
    settings, origins = decode_section(
        loaded, "setup-env", SetupEnvSettings, environ=environ, flags=flags
    )

    def placed(name: str, word: str) -> str:
        # The name of an interpreter without a slash is looked up on PATH.
        if name == "pythons" and "/" not in word:
            return word
        return str(path_in(loaded, origins[name], word))

    projects = [placed("projects", word) for word in settings.projects]
    if not keeps_missing and origins["projects"] == DEFAULT and not has_project(Path.cwd()):
        projects = []  # nobody named one, and a job without a Python project needs no pin
    venvs = [placed("venvs", word) for word in settings.venvs]
    pythons = [placed("pythons", word) for word in settings.pythons]
    settings = replace(
        settings, projects=tuple(projects), venvs=tuple(venvs), pythons=tuple(pythons)
    )
    return settings, prepared_value(loaded, environ)


# In the context's meta: the names of the exported variables, for a command that calls this one.
EXPORTED = "ci_doctor.exported"


@command(
    "setup-env",
    section="setup-env",
    examples={
        'exports=$(ci-doctor setup-env) && case $exports in\n  *CI_DOCTOR_PREPARED=*) eval "$exports" ;; *) false ;; esac || exit': "In a job: prepare, or end the job, with or without `set -e`.",
        "ci-doctor setup-env --determinism strict --dry-run": "Show what would be set and changed.",
    },
    epilog="`ci-doctor preload` shows, verifies and removes the shims that are installed.",
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
        differs = exports_output.differs(text, output)
        # A file that is right already stays untouched, with its time of change.
        if differs and not dry_run:
            write_atomically(output, os.fsencode(text))
        preparation = preparation.with_output(output, differs=differs)
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


def _prepare(settings: SetupEnvSettings, *, dry_run: bool) -> Preparation:
    if not settings.preload:
        return prepare(settings, os.environ)
    # Most jobs have no preload rule, and need not load that room.
    from ci_doctor.preload.injection import prepare_job

    return prepare_job(settings, os.environ, dry_run=dry_run)
