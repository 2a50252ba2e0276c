# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor plugin`: what the Buildkite plugin's hooks call."""

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from ci_doctor.commands.documented import Group, pass_session
from ci_doctor.session.failure import outcome_of
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.printing import say_line
from ci_doctor.session.session import Session
from ci_doctor.system.processes.limited_runs import TimeIsUp, time_limit


@click.group("plugin", cls=Group, hidden=True)
def plugin() -> None:
    """Called by the hooks of the Buildkite plugin."""


T = TypeVar("T")


def harmlessly(work: Callable[[], T], limit_s: float, consequence: str) -> T | None:
    """What `work` returns; None, and a line on stderr, if it raises or takes `limit_s` seconds.

    consequence: what does not happen then, to end the line.
    """
    try:
        with time_limit(limit_s):
            return work()
    except TimeIsUp:
        reason = f"it took more than {limit_s:g} s"
    # The job's result is not ours, whatever breaks here, and whoever ends us.
    except BaseException as error:  # noqa: BLE001
        reason = outcome_of(error, sys.argv[1:]).summary
    say_line(f"{reason}; {consequence}")
    return None


@plugin.command("pre-command")
@pass_session
@click.pass_context
def pre_command(context: click.Context, session: Session, /) -> int:
    """Print shell code for the hook: the exports of setup-env, and this job's report directory."""
    from ci_doctor.buildkite.plugin import (
        REPORT_DIR_VARIABLE,
        keep_began,
        options_and_problem,
        report_root,
        setup_env_arguments,
    )
    from ci_doctor.commands.exports_output import write_exports
    from ci_doctor.environment.exports import ExportFormat, render

    options, problem = options_and_problem(os.environ)
    root = report_root(options, os.environ)
    os.environ[REPORT_DIR_VARIABLE] = str(root)
    keep_began(root, session.invocation.started_at)
    words = setup_env_arguments(options)
    # The error of a mistyped option, too, is a report of setup-env: the retry's replaces it.
    session.invocation = Invocation.begin(["setup-env", *words])
    session.has_group = True
    session.is_preparation = True
    if problem is not None:
        raise problem
    if options.setup_env:
        code = _setup_env(context, session, root, words)
        # The failing statement is on stdout already; an export after it would hide its status.
        if code:
            return code
    if options.cache is not None:
        from ci_doctor.commands.plugin_caches import restore_caches

        code = restore_caches(root, options.cache, options.config)
        if code:
            return code
    exports = _of_the_job(root, _exported(context))
    write_exports(render(exports, ExportFormat.SHELL))
    return 0


def _exported(context: click.Context) -> tuple[str, ...]:
    """The names of what setup-env has exported, now or for an earlier entry of `plugins:`."""
    from ci_doctor.commands.setup_env import EXPORTED
    from ci_doctor.environment.exports import ours

    now = context.meta.get(EXPORTED, ())
    return (*ours(os.environ), *now)


def _of_the_job(root: Path, exported: tuple[str, ...]) -> dict[str, str]:
    """Where the reports go, as the command sees it, and the names of all that it needs.

    A line on stderr says what cannot reach a container.
    """
    from ci_doctor.buildkite.plugin import (
        HOST_REPORT_DIR_VARIABLE,
        NAMES_VARIABLE,
        REPORT_DIR_VARIABLE,
        container_of,
        names_to_pass,
        report_directory_inside,
        what_is_missing,
    )

    passed = (*exported, REPORT_DIR_VARIABLE)
    names = {NAMES_VARIABLE: names_to_pass(passed, os.environ)}
    container = container_of(os.environ, Path.cwd())
    if container is None:
        return {**names, REPORT_DIR_VARIABLE: str(root)}
    line = what_is_missing(container, root, passed)
    if line is not None:
        say_line(line.removeprefix("ci-doctor: "))
    # Last: the hook takes it for the end of the exports.
    inside = report_directory_inside(container, root)
    return {**names, HOST_REPORT_DIR_VARIABLE: str(root), REPORT_DIR_VARIABLE: inside}


def _setup_env(context: click.Context, session: Session, root: Path, words: list[str]) -> int:
    from ci_doctor.buildkite.plugin import HookStep, done_with, keep_done
    from ci_doctor.environment.exports import holds_all

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


_EXPLAIN_S = 45.0
# Of a job that timed out; the agent gives it 10 s in all (`cancel-grace-period`).
_GRACE_S = 5.0
_STAYS = "the command's status stays as it is"
# Below the 300 s after which hooks/post-command ends us.
_CACHES_S = 280.0


@plugin.command("post-command")
@pass_session
def post_command(session: Session, /) -> int:
    """Explain a failed command: prints the export of its new status, or nothing.

    Of one that succeeded, the caches are judged and saved. Exits with 0.
    """
    from ci_doctor.buildkite.job import JobEnd

    end = JobEnd.from_environ(os.environ)
    # Who cancelled the job knows why it ended.
    if end.is_cancelled and not end.is_timed_out:
        return 0
    if not end.command_status:
        from ci_doctor.commands.plugin_caches import judge_and_save_caches

        harmlessly(judge_and_save_caches, _CACHES_S, "the caches are not saved")
        return 0
    from ci_doctor.commands.plugin_command import status_of

    limit = _GRACE_S if end.is_timed_out else _EXPLAIN_S
    status = harmlessly(lambda: status_of(session, end), limit, _STAYS)
    if status is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(f"export BUILDKITE_COMMAND_EXIT_STATUS={status}\n")
            sys.stdout.flush()
    return 0


# The agent gives a cancelled job 10 s to end, and its last hooks a part of that.
_CANCELLED_S = 8.0
# Below the 120 s after which hooks/pre-exit ends us.
_PUBLISH_S = 110.0


@plugin.command("pre-exit")
def pre_exit() -> int:
    """Publish this job's reports. Always exits with 0, to leave the job's status unchanged."""
    is_cancelled = os.environ.get("BUILDKITE_JOB_CANCELLED") == "true"
    limit = _CANCELLED_S if is_cancelled else _PUBLISH_S
    for line in harmlessly(_publish, limit, "not everything is published") or []:
        say_line(line.removeprefix("ci-doctor: "))
    return 0


def _publish() -> list[str]:
    """Publish, and return a line for each thing that did not work."""
    from ci_doctor.buildkite.plugin import (
        keep_published,
        options_and_problem,
        report_root,
        was_published,
    )
    from ci_doctor.commands.plugin_command import kept_record
    from ci_doctor.session.delivery import read_reports
    from ci_doctor.session.publishing import publish_all

    # What is wrong with the options is in the report that pre-command made.
    options, _ = options_and_problem(os.environ)
    root = report_root(options, os.environ)
    problems: list[str] = []
    reports = read_reports((root,), problems)
    directories = [directory for directory, _ in reports]
    if was_published(root, directories, annotated=options.annotate):
        return []
    record = kept_record(root, reports, problems)
    # Without a report, too: a retry takes back what its earlier attempt has published.
    failed = publish_all(reports, annotate=options.annotate, at_end=True, record=record, root=root)
    if not failed:
        keep_published(root, directories, annotated=options.annotate)
    return problems + failed
