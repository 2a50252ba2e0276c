# SPDX-License-Identifier: Apache-2.0
"""Acts on the job's report directory: its caches are restored, judged and saved, each with a report."""

import os
from importlib import import_module

import click

from ci_doctor.buildkite.cache_option import (
    CacheOption,
    effect_arguments,
    restore_arguments,
    save_arguments,
)
from ci_doctor.buildkite.job_log_file import VARIABLE
from ci_doctor.buildkite.plugin import REPORT_DIR_VARIABLE, options_and_problem, report_root
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.session import Session


def restore_caches(
    context: click.Context, session: Session, option: CacheOption, config: str | None
) -> int:
    """Restore before the command; the exit code, which is 0 unless the option is strict."""
    return _run(context, session, "restore", restore_arguments(option, config))


def judge_and_save_caches(context: click.Context, session: Session) -> None:
    """Say whether the restored caches have paid, then save what the command has compiled."""
    options, _ = options_and_problem(os.environ)
    if options.cache is None:
        return
    os.environ[REPORT_DIR_VARIABLE] = str(report_root(options, os.environ))
    words = effect_arguments(options.cache, options.config)
    log = os.environ.get(VARIABLE)
    if log and os.access(log, os.R_OK):
        words += ["--log", log]
    # First: reading the files to save them would hide which of them the command has read.
    _run(context, session, "verify", words)
    if options.cache.save:
        _run(context, session, "save", save_arguments(options.cache, options.config))


def _run(context: click.Context, session: Session, name: str, words: list[str]) -> int:
    command: click.Command = getattr(import_module(f"ci_doctor.commands.cache.{name}"), name)
    session.invocation = Invocation.begin(["cache", name, *words])
    # A copy: click empties the list that it parses.
    with command.make_context(name, [*words], parent=context, obj=session) as inner:
        return int(command.invoke(inner) or 0)
