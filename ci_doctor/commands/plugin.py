# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor plugin pre-command` and `plugin pre-exit`: what the Buildkite plugin's hooks call."""

import os
from pathlib import Path

import click

from ci_doctor.buildkite.plugin import (
    REPORT_DIR_VARIABLE,
    read_plugin_options,
    report_root,
    setup_env_arguments,
)
from ci_doctor.commands.exports_output import write_exports
from ci_doctor.commands.group import Group
from ci_doctor.environment.exports import ExportFormat, render
from ci_doctor.errors import CiDoctorError
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.session import Session
from ci_doctor.session.written import publish_all, read_reports


@click.group("plugin", cls=Group, hidden=True)
def plugin() -> None:
    """Called by the hooks of the Buildkite plugin."""


@plugin.command("pre-command")
@click.pass_context
def pre_command(context: click.Context) -> int:
    """Print shell code for the hook: the exports of setup-env, and this job's report directory."""
    options = read_plugin_options(os.environ)
    root = report_root(options, os.environ)
    os.environ[REPORT_DIR_VARIABLE] = str(root)
    if options.setup_env:
        from ci_doctor.commands.setup_env import setup_env

        words = setup_env_arguments(options)
        session = Session(Invocation.begin(["setup-env", *words]))
        with setup_env.make_context("setup-env", words, parent=context, obj=session) as inner:
            code = int(setup_env.invoke(inner) or 0)
        # The failing statement is on stdout already; an export after it would hide its status.
        if code:
            return code
    write_exports(render({REPORT_DIR_VARIABLE: str(root)}, ExportFormat.SHELL))
    return 0


@plugin.command("pre-exit")
def pre_exit() -> int:
    """Publish this job's reports. Always exits with 0, to leave the job's status unchanged."""
    try:
        options = read_plugin_options(os.environ)
        lines: list[str] = []
        root = report_root(options, os.environ)
        reports = read_reports((Path(root),), lines)
        # Not a word in a job whose commands made no report.
        if reports:
            lines += publish_all(reports, annotate=options.annotate)
    except CiDoctorError as error:
        lines = [f"ci-doctor: {error.message}"]
    except Exception as error:  # noqa: BLE001 - the job's status is not ours, whatever breaks here
        lines = [f"ci-doctor: a bug in ci-doctor: {error!r}; nothing is published"]
    for line in lines:
        click.echo(line, err=True)
    return 0
