# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor run -- CMD`, with and without `--diagnose`."""

import contextlib
import errno
import os
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ci_doctor.commands.documented import command, option
from ci_doctor.commands.options import (
    check_separator,
    config_option,
    dry_run_option,
    environment_options,
    output_options,
    pass_session,
)
from ci_doctor.commands.setup_env import read_job_settings
from ci_doctor.environment.preparation import Preparation, outcome, prepare
from ci_doctor.environment.settings import SetupEnvSettings
from ci_doctor.errors import UsageError
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.quantities import parse_size
from ci_doctor.model.verdict import Verdict
from ci_doctor.model.words import PREPARED
from ci_doctor.session.printing import say
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.config.loading import Config
    from ci_doctor.supervision.run import SupervisionRequest


def refused(name: str, number: int) -> int:
    """127 if there is no command `name` (`number` is the error of execve(2)), else 126: as a shell."""
    if number == errno.ENOENT:
        say(f"error: {name}: command not found\n")
        return 127
    say(f"error: {name}: {os.strerror(number)}\n")
    return 126


def run_supervised(session: Session, request: "SupervisionRequest", loaded: "Config") -> int:
    """Run the command beside us, report how it ended, and end as it did.

    A failure goes into the history, if there is one.

    Returns 126 or 127 if the system does not run it, as if we had become it.
    """
    # Whoever becomes the command needs none of this.
    from ci_doctor.supervision.run import run as supervise
    from ci_doctor.system.relay import CommandRefusedError

    session.show(request.prepared)
    try:
        supervised = supervise(request, session.redactor)
    except CommandRefusedError as error:
        code = session.finish(request.prepared, text="")
        return code or refused(request.command[0], error.errno or 0)
    outcome, text = supervised.outcome, supervised.text
    if supervised.is_explained:
        # Whoever succeeds needs none of this.
        from ci_doctor.commands.run_record import history_lines, with_history

        outcome = with_history(session, loaded, outcome)
        text += "".join(f"history: {line}\n" for line in history_lines(outcome))
    code = session.finish(outcome, text=text)
    if supervised.signal is not None:
        _end_by(supervised.signal)
    return code


def _end_by(number: int) -> None:
    """End this process by that signal; returns if it does not end us (the first of a container)."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    # A dump would show ci-doctor, not the command. 1 and not 0: that holds for pipes too (core(5)).
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard != 0:
        resource.setrlimit(resource.RLIMIT_CORE, (1, hard))
    # SIGKILL takes no handler, and needs none.
    with contextlib.suppress(OSError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


_CAUSE = "If CMD fails"


@command(
    "run",
    section="setup-env",
    examples={
        "ci-doctor run -- pytest tests/serving": "Run a command in a prepared environment.",
        "ci-doctor run --diagnose --preload vllm -- bash ci/serving.sh": "Name the cause if the command fails.",
    },
    exits={
        0: "CMD succeeded; every other status of CMD is handed on, too",
        1: "the environment cannot be prepared as asked: CMD is not run",
        75: "--exit-code-by-class: CMD ended by a cause outside the change that another run cures",
        126: "CMD cannot be run",
        127: "CMD does not exist",
    },
    context_settings={"allow_interspersed_args": False},
)
@environment_options
@option(
    "--diagnose",
    group=_CAUSE,
    is_flag=True,
    help="Stay beside CMD and keep its output; if it fails, name the cause on stderr.",
)
@option(
    "--exit-code-by-class",
    "by_class",
    group=_CAUSE,
    is_flag=True,
    help="With --diagnose: end with 75 if CMD ended by a cause outside the change that another run cures.",
)
@option(
    "--log-limit",
    group=_CAUSE,
    default="64MiB",
    show_default=True,
    metavar="SIZE",
    help="With --diagnose: what is kept of the output, its first and last parts.",
)
@config_option
@dry_run_option
@output_options
@click.argument(
    "command",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="-- CMD…",
)
@pass_session
def run(
    session: Session,
    /,
    *,
    command: tuple[str, ...],
    config_path: Path | None,
    dry_run: bool,
    diagnose: bool,
    by_class: bool,
    log_limit: str,
    **flags: Any,
) -> int:
    """Prepare the same environment as setup-env, then become CMD: status and signals are CMD's own.

    Preload rules apply to CMD and its child processes; nothing is installed. With --diagnose,
    ci-doctor stays beside CMD, and CMD's output, status and signals are handed on.
    """
    # A `--` of the command's own is enough to tell whose option is whose.
    if "--" not in session.invocation.argv:
        check_separator(session.invocation, command)
    _check_supervision(session, diagnose=diagnose, by_class=by_class, dry_run=dry_run)
    limit = _bytes_of(log_limit)
    session.claim()
    settings, prepared = read_job_settings(session, config_path, os.environ, flags)
    environ, preparation = _prepare(settings, command)
    preparation = preparation.for_job(prepared)
    environ = {**environ, PREPARED: prepared}
    if diagnose and not dry_run:
        # Whoever becomes the command needs none of this.
        from ci_doctor.commands.diagnose import rule_files
        from ci_doctor.commands.run_record import record_environment
        from ci_doctor.config.loading import load_config
        from ci_doctor.supervision.run import SupervisionRequest

        loaded = load_config(config_path, Path.cwd())
        request = SupervisionRequest(
            command=command,
            environ=environ,
            prepared=outcome(preparation),
            directory=session.directory,
            log_limit=limit,
            rules=rule_files(loaded, os.environ),
            retry_status=_code_of_infra(session) if by_class else None,
        )
        session.hide(environ)
        record_environment(session, config_path)
        return run_supervised(session, request, loaded)
    session.is_preparation = True
    code = session.finish(outcome(preparation, dry_run=dry_run))
    if dry_run or code:
        return code
    if session.signals:
        # Whoever has sent it does not want the command to begin.
        number = session.signals[0]
        say(f"error: interrupted by {number.name} before the command was started\n")
        return 128 + number
    return become(command, environ)


def _check_supervision(session: Session, *, diagnose: bool, by_class: bool, dry_run: bool) -> None:
    """Raises UsageError if the options do not fit together."""
    if by_class and not diagnose:
        raise UsageError("--exit-code-by-class needs --diagnose", hint="add --diagnose")
    if session.as_json and not dry_run:
        raise UsageError(
            "stdout is the command's own, and has no room for --json",
            hint="use --report-dir, and read report.json there",
        )


def _code_of_infra(session: Session) -> int:
    """75, or the repository's own code, by which its pipelines retry."""
    codes = session.policy.codes if session.policy is not None else {}
    return codes.get(Verdict.INFRA.value, int(ExitCode.INFRA))


def _bytes_of(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"--log-limit: {error}", hint='write for example "64MiB"') from error


def _prepare(
    settings: SetupEnvSettings, command: tuple[str, ...]
) -> tuple[dict[str, str], Preparation]:
    if not settings.preload:
        preparation = prepare(settings, os.environ)
        return {**os.environ, **preparation.exports}, preparation
    # Most jobs have no preload rule, and need not load that room.
    from ci_doctor.preload.injection import prepare_command

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
    except ValueError:  # an empty name
        return refused(command[0], errno.ENOENT)
    except OSError as error:
        return refused(command[0], error.errno or 0)
