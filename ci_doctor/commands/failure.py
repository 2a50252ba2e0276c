# SPDX-License-Identifier: Apache-2.0
"""Acts on files and streams: what the error boundary does with an error."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

import click

from ci_doctor.commands.documented import read_output_options
from ci_doctor.commands.exports_output import print_failing_statement
from ci_doctor.commands.listing import COMMANDS
from ci_doctor.errors import UsageError
from ci_doctor.model.words import near_names, nearest
from ci_doctor.session.failure import outcome_of
from ci_doctor.session.printing import say
from ci_doctor.session.session import Session
from ci_doctor.system.files.access import near_path

_NOT_ONE_OF = re.compile(r"'(?P<value>[^']*)' is not one of")
# click's words for a number, which say how it checks it.
_INTEGER = re.compile(r"is not a valid integer(?: range)?")
_FLOAT = re.compile(r"is not a valid float(?: range)?")
_RANGE = re.compile(r"(is not in the range) .*")
_NO_PATH = re.compile(r"'(?P<path>[^']*)' does not exist$")
_MANY = 6  # commands


def option_hint(name: str, context: click.Context | None, session: Session) -> str | None:
    """What to do about an unknown option; None if nothing is known of it."""
    if context is None:
        return None
    near = near_names(name, _names(context.command))
    hints = [f"did you mean {' or '.join(near)}?"] if near else []
    roots = [("ci-doctor", context.find_root().command)]
    roots += [(f"ci-doctor {each}", _command(each)) for each in COMMANDS]
    owners = [f"`{line}`" for line, each in _with_those_below(roots) if name in _names(each)]
    if len(owners) > _MANY and isinstance(context.command, click.Group):
        line = f"{context.command_path} COMMAND {name}"
        hints = [f"{name} stands behind the command: `{line}`"]
    elif owners:
        hints.append(f"{name} is an option of {', '.join(owners)}")
    if hints:
        return " ".join(hints)
    if session.invocation.command == "run":
        return "see `ci-doctor run --help`; what belongs to the command stands after `--`"
    return None


def value_hint(error: click.ClickException) -> str | None:
    """What to do about a value that is none of those allowed."""
    context = getattr(error, "ctx", None)
    if context is None:
        return None
    unknown = _NOT_ONE_OF.search(error.format_message())
    parameter = getattr(error, "param", None)
    if isinstance(error, click.MissingParameter) and isinstance(parameter, click.Option):
        return f"write {parameter.opts[0]} {parameter.metavar or 'VALUE'}; {_help(error)}"
    if unknown is not None and parameter is not None and isinstance(parameter.type, click.Choice):
        near = nearest(unknown["value"], map(str, parameter.type.choices))
        return f"did you mean `{near}`?" if near is not None else None
    missing = _NO_PATH.search(error.format_message().rstrip("."))
    if missing is not None:
        return near_path(Path(missing["path"]))
    kind = getattr(parameter, "type", None)
    if isinstance(kind, click.IntRange | click.FloatRange):
        number = "a number" if isinstance(kind, click.FloatRange) else "a whole number"
        return f"write {number}{_limits(kind)}"
    return None


def _limits(kind: click.IntRange | click.FloatRange) -> str:
    if kind.min is None:
        return "" if kind.max is None else f", at most {kind.max}"
    least = f"above {kind.min}" if kind.min_open else f"from {kind.min}"
    if kind.max is None:
        return f" {least}" if kind.min_open else f" {least} on"
    return f" {least} {'and below' if kind.max_open else 'to'} {kind.max}"


def _with_those_below(
    commands: Iterable[tuple[str, click.Command]],
) -> Iterator[tuple[str, click.Command]]:
    """Command lines and their commands, each with the commands below it."""
    for line, command in commands:
        yield line, command
        if isinstance(command, click.Group):
            below = [(f"{line} {name}", each) for name, each in command.commands.items()]
            yield from _with_those_below(below)


def _names(command: click.Command) -> list[str]:
    names = ["--help"]
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            names += parameter.opts
    return [name for name in names if name.startswith("--")]


def _command(name: str) -> click.Command:
    word = name.replace("-", "_")
    command: click.Command = getattr(import_module(f"ci_doctor.commands.{word}"), word)
    return command


def fail(error: BaseException, session: Session) -> int:
    """Report a command that ended with `error`, and return its exit code."""
    read_output_options(session)  # click may not have come to them
    error = _ours(error, session)
    code = session.code_of(error)
    try:
        # Before the report: a shell must stop even if the report cannot be written.
        print_failing_statement(session.invocation.argv, code)
        return session.fail(error)
    # The last resort: whatever breaks here, the first error is what counts.
    except Exception as second:  # noqa: BLE001
        outcome = outcome_of(error, session.invocation.argv)
        text = f"error: {outcome.summary}\nwhile reporting this: {second!r}\n"
        with contextlib.suppress(Exception):
            say(text)
        return code


def _ours(error: BaseException, session: Session) -> BaseException:
    """An error of click's as one of ours."""
    match error:
        case click.exceptions.Abort():
            return KeyboardInterrupt()
        case click.exceptions.NoSuchOption():
            hint = option_hint(error.option_name, error.ctx, session) or _help(error)
            return UsageError(f"no such option {error.option_name}", hint=hint)
        case click.ClickException():
            # Click's sentences begin with a capital and end with a full stop; ours do neither.
            message = _INTEGER.sub("is not a whole number", error.format_message().rstrip("."))
            message = _FLOAT.sub("is not a number", message)
            message = _RANGE.sub("is out of range", message)
            first = message[:1].lower()
            hint = value_hint(error) or _help(error)
            return UsageError(first + message[1:], hint=hint)
        case _:
            return error


def _help(error: click.ClickException) -> str:
    command = "ci-doctor"
    # Only click's usage errors have a context, and not always.
    context = getattr(error, "ctx", None)
    if context is not None:
        command = context.command_path
    return f"see `{command} --help`"
