# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor setup-env`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ci_doctor.commands import exports_output
from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.legacy import legacy
from ci_doctor.commands.options import (
    config_option,
    dry_run_option,
    environment_options,
    output_options,
)
from ci_doctor.commands.preparation import Preparation, prepare, read_settings, with_output
from ci_doctor.environment.exports import ExportFormat, render
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.system.files.atomic import write_atomically


@click.command("setup-env")
@environment_options
@click.option(
    "--format",
    "style",
    type=click.Choice([str(item) for item in ExportFormat]),
    default="shell",
    show_default=True,
    help="Format of the exports.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the exports to this file instead of stdout.",
)
@config_option
@dry_run_option
@output_options
@legacy
def setup_env(
    invocation: Invocation,
    /,
    *,
    style: str,
    output: Path | None,
    config_path: Path | None,
    dry_run: bool,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - invocation.report_directory knows it, also where parsing fails
    **flags: Any,
) -> int:
    """Prepare a job's environment and print what to export.

    In a job: eval "$(ci-doctor setup-env)". On an error the shell format prints only a failing
    statement, or writes it to the file of --output.
    """
    directory = invocation.report_directory
    claim(directory)
    preparation = prepare(
        read_settings(config_path, os.environ, flags), os.environ, dry_run=dry_run
    )
    text = render(preparation.exports, ExportFormat(style))
    if output is not None:
        preparation = with_output(preparation, output, differs=exports_output.differs(text, output))
        if str(output) in preparation.changed and not dry_run:
            write_atomically(output, os.fsencode(text))
    told = () if dry_run else tell_agent(preparation, os.environ)
    code = deliver(
        describe(preparation, invocation, told, dry_run=dry_run),
        as_json=as_json,
        directory=directory,
    )
    if code:
        exports_output.print_failing_statement(invocation.argv, code)
    elif output is None and not (dry_run or as_json):
        exports_output.put(text)
    return code


def tell_agent(preparation: Preparation, environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """On Buildkite, write the exports to the job's environment too; what does not work there is a note, no more."""
    if "BUILDKITE_AGENT_JOB_API_SOCKET" not in environ:
        return ()
    from ci_doctor.buildkite.agent import Agent

    agent = Agent.find(environ)
    result = agent.set_environment(preparation.exports) if agent else None
    if result is None or result.ok:
        return ()
    return (
        Finding(
            rule="setup-env/agent",
            severity=Severity.NOTE,
            summary=f"buildkite-agent env set: {result.message}",
        ),
    )


def describe(
    preparation: Preparation,
    invocation: Invocation,
    told: tuple[Finding, ...] = (),
    *,
    dry_run: bool,
) -> Report:
    """The report of a preparation that succeeded; `told` is what came of telling the agent."""
    count, changed = len(preparation.exports), len(preparation.changed)
    if not changed:
        summary = f"nothing to change: {max(count - 1, 0)} variables are as they should be"
    elif dry_run:
        summary = f"would change {', '.join(preparation.changed)}"
    else:
        summary = f"prepared: {', '.join(preparation.changed)}"
    return invocation.report(
        verdict=Verdict.PASS,
        exit_code=0,
        summary=summary,
        findings=(*preparation.findings, *told),
        tables=preparation.tables,
        cases=preparation.cases,
        facts=preparation.facts,
    )
