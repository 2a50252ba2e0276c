# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor run -- CMD`, with and without `--diagnose`."""

import contextlib
import errno
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from ci_doctor.commands.documented import (
    check_separator,
    command,
    config_option,
    dry_run_option,
    environment_options,
    load_configuration,
    option,
    pass_session,
    supervising_output_options,
)
from ci_doctor.commands.setup_env import read_job_settings
from ci_doctor.environment.determinism import SetupEnvSettings
from ci_doctor.environment.preparation import Preparation, outcome, prepare
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.outcome import Verdict
from ci_doctor.model.words import PREPARED, parse_size, step_seconds
from ci_doctor.session.printing import say
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.config.loading import Config
    from ci_doctor.supervision import SupervisionRequest
    from ci_doctor.watch.stalls import WatchSettings
    from ci_doctor.watch.watching import ScriptWatch


def refused(name: str, number: int) -> int:
    """127 if there is no command `name` (`number` is the error of execve(2)), else 126: as a shell."""
    if number == errno.ENOENT:
        say(f"error: {name}: command not found\n")
        return 127
    say(f"error: {name}: {os.strerror(number)}\n")
    return 126


def run_supervised(
    session: Session,
    request: "SupervisionRequest",
    loaded: "Config",
    settings: "WatchSettings | None" = None,
) -> int:
    """Run the command beside us, report how it ended, and end as it did; with settings, watch it.

    A failure goes into the history, if there is one.

    Returns 126 or 127 if the system does not run it, as if we had become it.
    """
    # Whoever becomes the command needs none of this.
    from ci_doctor.supervision import run as supervise
    from ci_doctor.system.relay import CommandRefusedError

    if request.is_prepared:
        session.show(request.prepared)
    watches: list[ScriptWatch] = []
    companion = None if settings is None else _companion(session, settings, watches)
    try:
        supervised = supervise(
            request,
            session.redactor,
            companion,
            is_named=lambda: any(watch.facts().deaths or watch.facts().ends for watch in watches),
        )
    except CommandRefusedError as error:
        code = session.finish(request.prepared, text="")
        return code or refused(request.command[0], error.errno or 0)
    outcome, text = supervised.outcome, supervised.text
    if supervised.is_explained:
        # Whoever succeeds needs none of this.
        from ci_doctor.commands.run_record import history_lines, with_history

        outcome = with_history(session, loaded, outcome)
        text += "".join(f"history: {line}\n" for line in history_lines(outcome))
    is_ended = False
    for watch in watches:
        from ci_doctor.watch.report import death_lines, end_lines, with_watch

        facts = watch.facts()
        is_ended = facts.is_ended
        outcome = with_watch(outcome, facts, request.retry_status)
        failed = supervised.is_explained
        deaths = "".join(f"{line}\n" for line in death_lines(facts, failed=failed))
        rest = "".join(f"{line}\n" for line in end_lines(facts, failed=failed))
        text = f"{deaths}{text}{rest}"
    code = session.finish(outcome, text=text)
    if supervised.signal is not None and not is_ended:
        _end_by(supervised.signal)
    return code


def _companion(
    session: Session, settings: "WatchSettings", watches: "list[ScriptWatch]"
) -> "Callable[[Path], ScriptWatch]":
    """What makes a watch of the path of the command's log; it is put into `watches`."""
    from ci_doctor.render.formatting import printable
    from ci_doctor.watch.watching import ScriptWatch

    redactor = session.redactor

    def tell(lines: Iterable[str]) -> None:
        words = (f"ci-doctor: {printable(redactor.text(line))}\n" for line in lines)
        say("".join(words))

    def begin(log: Path) -> ScriptWatch:
        watch = ScriptWatch(settings, log, tell)
        watches.append(watch)
        return watch

    return begin


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
_WATCH = "While CMD runs"


@command(
    "run",
    section="setup-env",
    examples={
        "ci-doctor run -- pytest tests/serving": "Run a command in a prepared environment.",
        "ci-doctor run --diagnose --preload vllm -- bash ci/serving.sh": "Name the cause if the command fails.",
        "ci-doctor run --watch -- bash ci/serving.sh": "Say at once if a server dies that the script waits for.",
    },
    exits={
        0: "CMD succeeded; every other status of CMD is handed on, too",
        1: "the environment cannot be prepared as asked: CMD is not run; or --on-death end has ended it",
        75: "--exit-code-by-class: CMD ended by a cause outside the change that another run cures",
        126: "CMD cannot be run",
        127: "CMD does not exist",
    },
    context_settings={"allow_interspersed_args": False},
)
@environment_options
@option(
    "--no-setup-env",
    "unprepared",
    group="What is prepared",
    is_flag=True,
    help="Prepare nothing: CMD gets the environment as it is.",
)
@option(
    "--diagnose",
    group=_CAUSE,
    is_flag=True,
    help="Stay beside CMD and keep its output; if it fails, name the cause on stderr.",
)
@option(
    "--watch",
    group=_WATCH,
    is_flag=True,
    help="Stay beside CMD as with --diagnose, and watch all that it starts: a server that dies while CMD waits for it is said at once.",
)
@option(
    "--on-death",
    group=_WATCH,
    type=click.Choice(["say", "end"]),
    default="say",
    show_default=True,
    help="With --watch: what such a death does; end stops CMD and all that it started, with exit code 1.",
)
@option(
    "--clean",
    group=_WATCH,
    is_flag=True,
    help="With --watch: end what CMD leaves behind, in place of naming it alone.",
)
@option(
    "--allow",
    group=_WATCH,
    multiple=True,
    metavar="PATTERN",
    help="With --watch: what CMD may leave: a program, a command line, a port or a path (fnmatch).",
)
@option(
    "--stall",
    group=_WATCH,
    metavar="TIME",
    help="With --watch: the time without output, CPU, network and disk after which the processes are shown. Default: 5m.",
)
@option(
    "--deadline",
    group=_WATCH,
    metavar="TIME",
    help="With --watch: when they are shown in any case. Default: shortly before the step's own time-out (BUILDKITE_TIMEOUT).",
)
@option(
    "--stacks",
    group=_WATCH,
    is_flag=True,
    help="With --watch: let each Python write its stacks when they are shown; py-spy needs no such option.",
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
@supervising_output_options
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
    unprepared: bool,
    diagnose: bool,
    watch: bool,
    on_death: str,
    clean: bool,
    allow: tuple[str, ...],
    stall: str | None,
    deadline: str | None,
    stacks: bool,
    by_class: bool,
    log_limit: str,
    **flags: Any,
) -> int:
    """Prepare the same environment as setup-env, then become CMD: status and signals are CMD's own.

    Preload rules apply to CMD and its child processes; nothing is installed. With --diagnose,
    ci-doctor stays beside CMD, and CMD's output, status and signals are handed on. So it does with
    --watch.
    """
    # A `--` of the command's own is enough to tell whose option is whose.
    if "--" not in session.invocation.argv:
        check_separator(session.invocation, command)
    diagnose = diagnose or watch
    _check_supervision(session, diagnose=diagnose, by_class=by_class, dry_run=dry_run)
    _check_watch(
        watch=watch,
        others={
            "--on-death": on_death != "say",
            "--clean": clean,
            "--allow": allow,
            "--stall": stall is not None,
            "--deadline": deadline,
            "--stacks": stacks,
        },
    )
    limit = _bytes_of(log_limit)
    stall_s, deadline_s = _times_of(stall, deadline)
    try:
        session.claim()
    except (UsageError, InfraError) as error:
        # Who reads 75 or 2 in a job's log would look for the command's own end.
        message = f"{error.message}; nothing was started"
        raise type(error)(message, hint=error.hint) from error
    if unprepared:
        load_configuration(session, config_path)
        environ, preparation = dict(os.environ), Preparation()
    else:
        settings, prepared = read_job_settings(session, config_path, os.environ, flags)
        environ, preparation = _prepare(settings, command)
        preparation = preparation.for_job(prepared)
        environ = {**environ, PREPARED: prepared}
    if diagnose and not dry_run:
        # Whoever becomes the command needs none of this.
        from ci_doctor.commands.diagnose import rule_files
        from ci_doctor.commands.run_record import record_environment
        from ci_doctor.config.loading import load_config
        from ci_doctor.supervision import SupervisionRequest
        from ci_doctor.system.processes.program import show_as

        # Before anything of ours is forked.
        show_as(b"ci-doctor run")
        loaded = load_config(config_path, Path.cwd())
        request = SupervisionRequest(
            command=command,
            environ=environ,
            prepared=outcome(preparation),
            is_prepared=not unprepared,
            directory=session.directory,
            log_limit=limit,
            rules=rule_files(loaded, os.environ),
            retry_status=_code_of_infra(session) if by_class else None,
        )
        session.hide(environ)
        record_environment(session, config_path)
        if not watch:
            return run_supervised(session, request, loaded)
        from ci_doctor.watch.stalls import WatchSettings, stacks_folder

        with stacks_folder(request.environ, wanted=stacks) as (folder, with_stacks):
            watched = WatchSettings(
                ends_on_death=on_death == "end",
                cleans=clean,
                allowed=allow,
                stall_s=stall_s,
                deadline_s=deadline_s,
                stacks=folder,
                environment=environ,
            )
            request = replace(request, environ=with_stacks)
            return run_supervised(session, request, loaded, watched)
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


def _check_watch(*, watch: bool, others: Mapping[str, object]) -> None:
    """Raises UsageError if an option of --watch stands without it."""
    for name, is_given in others.items():
        if is_given and not watch:
            raise UsageError(f"{name} needs --watch", hint="add --watch")


def _times_of(stall: str | None, deadline: str | None) -> tuple[float, float | None]:
    """The two times in seconds; without a deadline that of the step, if it has one."""
    from ci_doctor.config.decoding import seconds_above_zero

    stall_s = seconds_above_zero("5m" if stall is None else stall, "--stall")
    if deadline is not None:
        return stall_s, seconds_above_zero(deadline, "--deadline")
    times = step_seconds(os.environ.get("BUILDKITE_TIMEOUT", ""))
    return stall_s, None if times is None else times[1]


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
