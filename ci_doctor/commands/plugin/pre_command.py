# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor plugin pre-command`."""

import os
from pathlib import Path

import click

from ci_doctor.buildkite.container import (
    NAMES_VARIABLE,
    container_of,
    names_to_pass,
    report_directory_inside,
    what_is_missing,
)
from ci_doctor.buildkite.hook_record import HookStep, done_with, keep_began, keep_done
from ci_doctor.buildkite.plugin import (
    HOST_REPORT_DIR_VARIABLE,
    REPORT_DIR_VARIABLE,
    options_and_problem,
    report_root,
    setup_env_arguments,
)
from ci_doctor.commands.exports_output import write_exports
from ci_doctor.commands.options import pass_session
from ci_doctor.environment.exports import ExportFormat, holds_all, ours, render
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.printing import say
from ci_doctor.session.session import Session


@click.command("pre-command")
@pass_session
@click.pass_context
def pre_command(context: click.Context, session: Session, /) -> int:
    """Print shell code for the hook: the exports of setup-env, and this job's report directory."""
    options, problem = options_and_problem(os.environ)
    root = report_root(options, os.environ)
    os.environ[REPORT_DIR_VARIABLE] = str(root)
    keep_began(root, session.invocation.started_at)
    words = setup_env_arguments(options)
    # The error of a mistyped option, too, is a report of setup-env: the retry's replaces it.
    session.invocation = Invocation.begin(["setup-env", *words])
    session.has_group = True
    if problem is not None:
        raise problem
    if options.setup_env:
        code = _setup_env(context, session, root, words)
        # The failing statement is on stdout already; an export after it would hide its status.
        if code:
            return code
    if options.cache is not None:
        from ci_doctor.commands.plugin.job_caches import restore_caches

        code = restore_caches(root, options.cache, options.config)
        if code:
            return code
    exports = _of_the_job(root, _exported(context))
    write_exports(render(exports, ExportFormat.SHELL))
    return 0


def _exported(context: click.Context) -> tuple[str, ...]:
    """The names of what setup-env has exported, now or for an earlier entry of `plugins:`."""
    from ci_doctor.commands.setup_env import EXPORTED

    now = context.meta.get(EXPORTED, ())
    return (*ours(os.environ), *now)


def _of_the_job(root: Path, exported: tuple[str, ...]) -> dict[str, str]:
    """Where the reports go, as the command sees it, and the names of all that it needs.

    A line on stderr says what cannot reach a container.
    """
    passed = (*exported, REPORT_DIR_VARIABLE)
    names = {NAMES_VARIABLE: names_to_pass(passed, os.environ)}
    container = container_of(os.environ, Path.cwd())
    if container is None:
        return {**names, REPORT_DIR_VARIABLE: str(root)}
    line = what_is_missing(container, root, passed)
    if line is not None:
        say(f"{line}\n")
    # Last: the hook takes it for the end of the exports.
    inside = report_directory_inside(container, root)
    return {**names, HOST_REPORT_DIR_VARIABLE: str(root), REPORT_DIR_VARIABLE: inside}


def _setup_env(context: click.Context, session: Session, root: Path, words: list[str]) -> int:
    if words in done_with(root, HookStep.PREPARED) and holds_all(os.environ):
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
        keep_done(root, HookStep.PREPARED, words)
    return code
