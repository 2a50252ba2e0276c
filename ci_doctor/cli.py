# SPDX-License-Identifier: Apache-2.0
"""The root group with its lazily loaded commands, and the one error boundary."""

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING

import click

from ci_doctor.commands.documented import GENERAL, Group, option
from ci_doctor.commands.listing import COMMANDS, GROUPS
from ci_doctor.errors import Terminated
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# With a report; KeyboardInterrupt stands for SIGINT.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


# Set by the scripts of click, which a shell evaluates to complete our command lines.
_COMPLETE = "_CI_DOCTOR_COMPLETE"
# In a context's `meta`: a signal ends the process at once until a command is loaded.
_IS_GUARDED = "ci_doctor.is_guarded"
# What a newcomer needs, in place of the whole help.
_NEW_HERE = """\
ci-doctor names why a CI job that tests LLM serving failed, and what to do.

New here? In your repository:
  ci-doctor diagnose LOG…   Name the root cause in the logs of a failed job.
  ci-doctor lint            Name what will break a job, before it runs.
  ci-doctor doctor          Check whether this machine is fit for the job.
  ci-doctor init            Propose a configuration and a pipeline step.
All commands: `ci-doctor --help`. One command: `ci-doctor COMMAND --help`."""


class Root(Group):
    """A click group that loads a command when it is asked for (click's documented LazyGroup)."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names that people type, in the order of the table."""
        # The plugin's hooks have no group: people do not type them.
        return [name for name, (group, _) in COMMANDS.items() if group]

    def get_command(
        self,
        ctx: click.Context,
        cmd_name: str,
    ) -> click.Command | None:
        """The command, imported now."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = import_module(f"ci_doctor.commands.{name}")
        command: click.Command = getattr(module, name)
        # From here on something may have to be put away.
        if ctx.meta.get(_IS_GUARDED):
            _raise_on_signals()
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list["CompletionItem[str]"]:
        """The commands from the table, not to load all of them at each key; else the options."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=COMMANDS[name][1]) for name in names]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the commands to the help text, by group."""
        for group in GROUPS:
            rows = [(name, line) for name, (of, line) in COMMANDS.items() if of == group]
            with formatter.section(group):
                formatter.write_dl(rows)


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from ci_doctor.version import tool_version

        click.echo(f"ci-doctor {tool_version()}")
        ctx.exit()


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples={
        "ci-doctor diagnose logs/": "A job failed: name the cause in its logs.",
        "ci-doctor correctness --baseline 'CMD {port}' --candidate 'CMD2 {port}' --requests prompts.jsonl": "A server was changed: compare its answers with those of the old one.",
        "ci-doctor run --diagnose -- bash ci/test.sh": "Run a job's command in a prepared environment.",
    },
)
@option(
    "-V",
    "--version",
    group=GENERAL,
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version.",
)
def root() -> None:
    """Diagnostics for CI jobs that test LLM serving: prepare, run, explain, report."""


def main(argv: Sequence[str], *, is_guarded: bool = False) -> int:
    """Run one command line and return its exit code; every error ends here.

    `is_guarded`: the caller ends the process at a signal, and does so until a command is loaded.
    """
    previous = {number: signal.getsignal(number) for number in _ENDING}
    if not is_guarded:
        _raise_on_signals()
    session = Session(Invocation.begin(argv))
    try:
        if instruction := os.environ.get(_COMPLETE):
            from click.shell_completion import shell_complete

            return shell_complete(root, {"obj": session}, "ci-doctor", _COMPLETE, instruction)
        return _run(session, is_guarded=is_guarded)
    # Also SystemExit: a project's own code is run in here, and may raise it.
    except BaseException as error:  # noqa: BLE001
        return _fail(error, session)
    finally:
        for number, handler in previous.items():
            # None stands for a handler that was not installed from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _run(session: Session, *, is_guarded: bool) -> int:
    """Not `root.main`: it ends the process with 1 if the reader of stdout is gone."""
    try:
        with root.make_context("ci-doctor", list(session.invocation.argv), obj=session) as context:
            context.meta[_IS_GUARDED] = is_guarded
            return int(root.invoke(context) or 0)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        shown = _NEW_HERE if error.ctx.parent is None else error.ctx.get_help()
        click.echo(shown, err=True)
        return ExitCode.USAGE


def _fail(error: BaseException, session: Session) -> int:
    if isinstance(error, BrokenPipeError) and _reader_is_gone():
        return 128 + signal.SIGPIPE
    # The report is written in a moment; a second signal must not take it away.
    impatient = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING}
    try:
        from ci_doctor.commands.failure import fail

        return fail(error, session)
    finally:
        for number, previous in impatient.items():
            signal.signal(number, previous)


def _reader_is_gone() -> bool:
    """Whether what broke is our own output (`| head -1`), and not a pipe to another program."""
    import select

    streams = select.poll()
    for descriptor in (1, 2):
        streams.register(descriptor, 0)
    gone = select.POLLERR | select.POLLHUP
    return any(event & gone for _, event in streams.poll(0))


def _raise_on_signals() -> None:
    """Let a signal raise KeyboardInterrupt or Terminated from now on."""
    for number in _ENDING:
        # Whoever started us with one ignored wants what `run` becomes to ignore it too.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise)


def _raise(number: int, frame: FrameType | None) -> None:
    error: BaseException = KeyboardInterrupt()
    if number != signal.SIGINT:
        error = Terminated(signal.Signals(number).name)
    importing = _that_imports(frame)
    # What is raised in an import may be swallowed, or leave a module of C half made.
    if importing is None:
        raise error
    _raise_later(error, importing)


def _that_imports(frame: FrameType | None) -> FrameType | None:
    """The outermost frame that imports something; None if none does."""
    outermost = None
    while frame is not None:
        outer = frame.f_back
        is_import = frame.f_code.co_filename == "<frozen importlib._bootstrap>"
        if is_import and outer is not None:
            outermost = outer
        frame = outer
    return outermost


def _raise_later(error: BaseException, frame: FrameType) -> None:
    """Raise `error` in `frame` before its next line, or its return."""

    def trace(*_: object) -> None:
        sys.settrace(None)
        frame.f_trace = None
        raise error

    frame.f_trace = trace
    # Without one for the whole program, that of a frame is not called.
    sys.settrace(lambda *_: None)
