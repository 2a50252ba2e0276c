# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor plugin pre-command` and `plugin pre-exit`: what the Buildkite plugin's hooks call."""

import os
from pathlib import Path

import click

from ci_doctor.buildkite.hook_record import (
    keep_prepared,
    keep_published,
    was_prepared,
    was_published,
)
from ci_doctor.buildkite.plugin import (
    REPORT_DIR_VARIABLE,
    options_and_problem,
    report_root,
    setup_env_arguments,
)
from ci_doctor.commands.exports_output import write_exports
from ci_doctor.commands.group import Group
from ci_doctor.commands.options import pass_session
from ci_doctor.environment.exports import ExportFormat, holds_all, render
from ci_doctor.errors import CiDoctorError
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.session import Session
from ci_doctor.session.written import publish_all, read_reports


@click.group("plugin", cls=Group, hidden=True)
def plugin() -> None:
    """Called by the hooks of the Buildkite plugin."""


@plugin.command("pre-command")
@pass_session
@click.pass_context
def pre_command(context: click.Context, session: Session, /) -> int:
    """Print shell code for the hook: the exports of setup-env, and this job's report directory."""
    options, problem = options_and_problem(os.environ)
    root = report_root(options, os.environ)
    os.environ[REPORT_DIR_VARIABLE] = str(root)
    words = setup_env_arguments(options)
    # The error of a mistyped option, too, is a report of setup-env: the retry's replaces it.
    session.invocation = Invocation.begin(["setup-env", *words])
    if problem is not None:
        raise problem
    if options.setup_env:
        code = _setup_env(context, session, root, words)
        # The failing statement is on stdout already; an export after it would hide its status.
        if code:
            return code
    write_exports(render({REPORT_DIR_VARIABLE: str(root)}, ExportFormat.SHELL))
    return 0


def _setup_env(context: click.Context, session: Session, root: Path, words: list[str]) -> int:
    if was_prepared(root, words) and holds_all(os.environ):
        click.echo(
            "ci-doctor: prepared already: the step lists the plugin twice, and once is enough",
            err=True,
        )
        return 0
    from ci_doctor.commands.setup_env import setup_env

    # A copy: click empties the list that it parses.
    with setup_env.make_context("setup-env", [*words], parent=context, obj=session) as inner:
        code = int(setup_env.invoke(inner) or 0)
    if code == 0:
        keep_prepared(root, words)
    return code


@plugin.command("pre-exit")
def pre_exit() -> int:
    """Publish this job's reports. Always exits with 0, to leave the job's status unchanged."""
    try:
        lines = _publish()
    except CiDoctorError as error:
        lines = [f"ci-doctor: {error.message}"]
    except Exception as error:  # noqa: BLE001 - the job's status is not ours, whatever breaks here
        lines = [f"ci-doctor: a bug in ci-doctor: {error!r}; nothing is published"]
    for line in lines:
        click.echo(line, err=True)
    return 0


def _publish() -> list[str]:
    """Publish, and return a line for each thing that did not work."""
    # What is wrong with the options is in the report that pre-command made.
    options, _ = options_and_problem(os.environ)
    root = report_root(options, os.environ)
    broken: list[str] = []
    reports = read_reports((root,), broken)
    directories = [directory for directory, _ in reports]
    if reports and was_published(root, directories, annotated=options.annotate):
        return []
    # Without a report, too: a retry takes back what its earlier attempt has published.
    failed = publish_all(reports, annotate=options.annotate, at_end=True)
    if reports and not failed:
        keep_published(root, directories, annotated=options.annotate)
    return broken + failed
