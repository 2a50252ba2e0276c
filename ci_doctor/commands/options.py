# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, each declared once, and the `--` in front of a command."""

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ci_doctor.commands.documented import GENERAL, INTERPRETERS, REPORT, command, option
from ci_doctor.errors import UsageError
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.config.loading import Config


F = TypeVar("F", bound=Callable[..., Any])
# A shell completes it; whoever reads it says what is wrong with it.
PATH: Final = click.Path(readable=False)


pass_session = click.make_pass_decorator(Session)


def output_options(function: F) -> F:
    """`--json`, `--report-dir`, `--junit`: every command has them; the session keeps what they say."""
    return _output_options(function, "a folder in $CI_DOCTOR_REPORT_DIR, if that is set")


def run_output_options(function: F) -> F:
    """The same for commands that keep logs: they write a report in any case."""
    return _output_options(function, "a folder in $CI_DOCTOR_REPORT_DIR, else ci-doctor-report")


def _output_options(function: F, directory: str) -> F:
    for each in (
        option(
            "--junit",
            group=REPORT,
            type=click.Choice(["verdict", "requests"]),
            expose_value=False,
            is_eager=True,
            callback=_keep("junit", str),
            help="Test cases of junit.xml. [default: verdict; requests for `pytest`]",
        ),
        option(
            "--report-dir",
            group=REPORT,
            type=click.Path(file_okay=False),
            expose_value=False,
            is_eager=True,
            callback=_keep("named_directory", Path),
            help="Write report.json, report.md and junit.xml to this directory. "
            f"[default: {directory}]",
        ),
        option(
            "--json",
            group=REPORT,
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_keep("as_json", bool),
            help="Print the report as JSON on stdout; all other output goes to stderr.",
        ),
    ):
        function = each(function)
    return function


def _keep(name: str, kind: Callable[[Any], Any]) -> Callable[..., None]:
    """What keeps a value in the session, as `kind` makes it.

    Not if it is absent: it may stand before the word of a command within a command. An empty text is
    `--report-dir "$UNSET"`: as a path it would be the working directory, and lose its files.
    """

    def keep(context: click.Context, _option: click.Parameter, value: Any) -> None:
        if value:
            setattr(_session(context), name, kind(value))

    return keep


def _session(context: click.Context) -> Session:
    session = context.find_object(Session)
    assert session is not None  # noqa: S101 - cli makes one for every command line
    return session


@command("output")
@output_options
def _output() -> None:
    """The options of output alone."""


def read_output_options(session: Session) -> None:
    """Keep `--json`, `--report-dir` and `--junit` of a command line that click could not parse.

    An error about the command line must find its way to the report that was asked for.
    """
    _output.make_context(
        "output",
        list(session.invocation.own_argv),
        obj=session,
        resilient_parsing=True,
        ignore_unknown_options=True,
        allow_extra_args=True,
    )


def config_option(function: F) -> F:
    """`--config`."""
    return option(
        "--config",
        "config_path",
        group=GENERAL,
        type=click.Path(path_type=Path, dir_okay=False),
        help="Configuration file. [default: ci-doctor.toml or pyproject.toml, here or above]",
    )(function)


def load_configuration(session: Session, config_path: Path | None, **policy: Any) -> "Config":
    """The configuration. Raises ConfigError.

    The session gets the repository's own exit codes; `policy` is the rest of its ExitPolicy.
    """
    from ci_doctor.config.decoding import read_exit_codes
    from ci_doctor.config.loading import load_config
    from ci_doctor.session.exit_policy import ExitPolicy

    loaded = load_config(config_path, Path.cwd())
    codes, _ = read_exit_codes(loaded, os.environ)
    session.policy = ExitPolicy(codes=codes, **policy)
    return loaded


def dry_run_option(function: F) -> F:
    """`--dry-run`."""
    return option(
        "--dry-run", group=GENERAL, is_flag=True, help="Print the planned actions; change nothing."
    )(function)


VENV_OPTION = option(
    "--venv",
    "venvs",
    group=INTERPRETERS,
    multiple=True,
    metavar="DIR",
    type=PATH,
    help="Target virtual environment. Repeatable.",
)
PYTHON_OPTION = option(
    "--python",
    "pythons",
    group=INTERPRETERS,
    multiple=True,
    metavar="PY",
    type=PATH,
    help="Target interpreter. Repeatable.",
)
_ENVIRONMENT_OPTIONS = (
    option(
        "--allow-fallback",
        group="Version pins",
        is_flag=True,
        default=None,
        help="Pin even if a shallow clone hides the real version.",
    ),
    option(
        "--verify",
        group="Version pins",
        type=click.Choice(["auto", "always", "never"]),
        help="When pins are proven by building the metadata. auto: if that is cheap; always: also if "
        "build requirements must be installed. [default: auto]",
    ),
    option(
        "--preload",
        group="What is prepared",
        multiple=True,
        metavar="RULE",
        help="Import a module before a trigger: TRIGGER=MODULE[:ATTR,ATTR], or the name of "
        "a preset (vllm). Installs a shim; with `run` it applies to CMD alone. Repeatable.",
    ),
    option(
        "--determinism",
        group="What is prepared",
        type=click.Choice(["off", "default", "strict"]),
        help="Determinism profile. [default: default]",
    ),
    VENV_OPTION,
    PYTHON_OPTION,
    option(
        "--project",
        "projects",
        group="Version pins",
        multiple=True,
        metavar="DIR",
        type=PATH,
        help="Project to pin. Repeatable. [default: .]",
    ),
)


def environment_options(function: F) -> F:
    """What `setup-env` and `run` prepare."""
    for each in _ENVIRONMENT_OPTIONS:
        function = each(function)
    return function


def stands_behind(invocation: Invocation, words: Sequence[str]) -> bool:
    """Whether `words` are what stands behind `--`."""
    return tuple(words) == invocation.argv[len(invocation.own_argv) + 1 :]


def _is_plain(text: str) -> bool:
    """Whether a text is one command, without anything that only a shell does."""
    try:
        return bool(shlex.split(text)) and not set(text) & set("|&;<>()$`*?~\n")
    except ValueError:
        return False


def check_separator(invocation: Invocation, words: Sequence[str]) -> None:
    """Raises UsageError if the command `words` does not stand behind `--`.

    If the `--` stands among them, they begin with a part of an option's value without its quotes.

    Without it nobody could tell whose option `--json` is.
    """
    if not words or stands_behind(invocation, words):
        return
    if "--" in words:
        raise UsageError(
            f"`{words[0]}` belongs to no option", hint="quote a value of several words"
        )
    ours = invocation.argv[: -len(words)]
    if any("{port}" in word for word in words):
        text = words[0] if len(words) == 1 else shlex.join(words)
        line = shlex.join(["ci-doctor", *ours, "--service", f"server={text}"])
        raise UsageError(
            "a server is started by --service, and a command under it stands behind `--`",
            hint=f"write: {line}",
        )
    if len(words) == 1 and " " in words[0]:
        # One word of a shell: quotes that belong to an option, or to nothing.
        words = shlex.split(words[0]) if _is_plain(words[0]) else ["bash", "-c", words[0]]
    line = shlex.join(["ci-doctor", *ours, "--", *words])
    raise UsageError("`--` is missing before the command", hint=f"write: {line}")
