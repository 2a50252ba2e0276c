# SPDX-License-Identifier: Apache-2.0
"""Commands, groups and options that carry their documentation: `--help` and the reference are made of it."""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import augment_usage_errors

from ci_doctor.commands.listing import BELOW, commands_named
from ci_doctor.errors import UsageError
from ci_doctor.model.words import did_you_mean, near_names, nearest
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.session import Session
from ci_doctor.system.files.access import near_path

if TYPE_CHECKING:
    from ci_doctor.config.loading import Config

# A term that is longer gets a line of its own, and pushes nothing to the right.
_TERM: Final = 22
_GAP: Final = 2


class HelpLayout(click.HelpFormatter):
    """click's, with terms of one width in all sections."""

    def write_dl(
        self,
        rows: Iterable[tuple[str, str]],
        col_max: int = _TERM,
        col_spacing: int = _GAP,
    ) -> None:
        """Write terms and what they mean."""
        listed = list(rows)
        widest = max((len(term) for term, _ in listed), default=0)
        self._write_terms(listed, min(widest, col_max) + col_spacing)

    def write_options(self, rows: Iterable[tuple[str, str]]) -> None:
        """Write options: in every section their explanations begin in the same column."""
        self._write_terms(list(rows), _TERM + _GAP)

    def write_examples(self, examples: Mapping[str, str]) -> None:
        """Write command lines, each below the sentence that says what it does."""
        with self.section("Examples" if len(examples) > 1 else "Example"):
            for line, sentence in examples.items():
                self.write_text(sentence)
                # Never broken: it is copied.
                for each in line.split("\n"):
                    self.write(f"{'':>{self.current_indent + self.indent_increment}}{each}\n")

    def _write_terms(self, rows: list[tuple[str, str]], column: int) -> None:
        margin = " " * self.current_indent
        width = max(self.width - self.current_indent - column, 10)
        for term, meaning in rows:
            lines = click.wrap_text(meaning, width, preserve_paragraphs=True).splitlines()
            is_beside = lines and len(term) <= column - _GAP
            first = f"{term:<{column}}{lines.pop(0)}" if is_beside else term
            self.write(f"{margin}{first}\n")
            for line in lines:
                self.write(f"{margin}{'':>{column}}{line}\n")


# What an option is put on: a function, or the command that it has become.
OptionsT = TypeVar("OptionsT", bound=Callable[..., Any] | click.Command)
# Headings that mean the same in every command. The last two stand behind all others.
OPTIONS: Final = "Options"
INTERPRETERS: Final = "Interpreters"
VERDICT: Final = "Verdict"
TIME: Final = "Time"
REPORT: Final = "Report"
GENERAL: Final = "General"
_LAST: Final = (REPORT, GENERAL)


class GroupedOption(click.Option):
    """An option that knows the heading under which the help shows it."""

    def __init__(self, *declarations: Any, group: str = OPTIONS, **attributes: Any) -> None:
        super().__init__(*declarations, **attributes)
        self.group = group

    def make_metavar(self, ctx: click.Context) -> str:
        """The word for a value: N for a whole number, where click has INTEGER RANGE."""
        if self.metavar is None and (
            self.type is click.INT or isinstance(self.type, click.IntRange)
        ):
            return "N"
        if self.metavar is None and (
            self.type is click.FLOAT or isinstance(self.type, click.FloatRange)
        ):
            return "NUMBER"
        return super().make_metavar(ctx)

    def get_help_extra(self, ctx: click.Context) -> Any:
        """What click puts in brackets; that a number of things is at least 1 needs no word."""
        extra = super().get_help_extra(ctx)
        words = range_in_words(self.type)
        if words is not None:
            extra["range"] = words
        elif "range" in extra:
            del extra["range"]
        return extra

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help, with one pair of brackets at the end."""
        record = super().get_help_record(ctx)
        if record is None:
            return None
        joined = record[1].replace("]  [", "; ")
        return record[0], joined.replace("  [", " [")


def range_in_words(kind: object) -> str | None:
    """What values a number may have; None if any, or any above 0 or from 0 or 1 on."""
    if not isinstance(kind, click.IntRange | click.FloatRange):
        return None
    if kind.min is not None and kind.max is not None:
        return f"between {kind.min} and {kind.max}"
    if kind.min is not None and kind.min > 1:
        return f"at least {kind.min}"
    return None


def option(
    *declarations: str, group: str = OPTIONS, **attributes: Any
) -> Callable[[OptionsT], OptionsT]:
    """As click.option, with the heading `group`."""
    return click.option(*declarations, cls=GroupedOption, group=group, **attributes)


class Documented:
    """What a command has besides click's: examples, exit codes, its section of the configuration."""

    def __init__(
        self,
        *arguments: Any,
        examples: Mapping[str, str] | None = None,
        exits: Mapping[int, str] | None = None,
        section: str | None = None,
        below: Mapping[str, str] | None = None,
        **attributes: Any,
    ) -> None:
        """examples: a command line, and the sentence that says what it does.

        exits: what exit codes mean for this command, if that is more than docs/exit-codes.md says.
        section: the section of ci-doctor.toml whose keys its options override.
        below: words that it takes for commands of their own though it is no group, and their modules.
        """
        super().__init__(*arguments, **attributes)
        self.examples = dict(examples or {})
        self.exits = dict(exits or {})
        self.section = section
        self.below = dict(below or {})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's; an option without its value is an error of this command, too."""
        with augment_usage_errors(ctx):
            remaining: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return remaining

    def get_help(self: Any, ctx: click.Context) -> str:
        """The help text, in our layout."""
        layout = HelpLayout(width=ctx.terminal_width, max_width=ctx.max_content_width)
        self.format_help(ctx, layout)
        return layout.getvalue().rstrip("\n")

    def format_options(self: Any, ctx: click.Context, formatter: Any) -> None:
        """Write examples, options by group, and exit codes, in place of click's one block of options.

        `formatter` is the layout of get_help.
        """
        if self.examples:
            formatter.write_examples(self.examples)
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)
        for heading, options in options_by_group(self, ctx).items():
            records = [each.get_help_record(ctx) for each in options]
            with formatter.section(heading):
                formatter.write_options(record for record in records if record is not None)
        if self.exits:
            with formatter.section("Exit codes"):
                formatter.write_dl((str(code), text) for code, text in self.exits.items())


class DocumentedCommand(Documented, click.Command):
    """A command with its documentation."""


def command(
    name: str, *, cls: type[DocumentedCommand] = DocumentedCommand, **attributes: Any
) -> Callable[[Callable[..., Any]], DocumentedCommand]:
    """As click.command, with what Documented takes."""
    return click.command(name, cls=cls, **attributes)


def options_by_group(shown: click.Command, ctx: click.Context) -> dict[str, list[click.Option]]:
    """The options that help shows, by heading: in the order of their declaration, the common ones last."""
    groups: dict[str, list[click.Option]] = {}
    for parameter in shown.get_params(ctx):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            groups.setdefault(_group_of(parameter), []).append(parameter)
    last = {name: groups.pop(name) for name in _LAST if name in groups}
    return groups | last


def _group_of(parameter: click.Option) -> str:
    # click's own, which it makes itself.
    if "--help" in parameter.opts:
        return GENERAL
    group: str = getattr(parameter, "group", OPTIONS)
    return group


class Group(Documented, click.Group):
    """As click's, but documented, and an unknown command is an error of ours, with a hint."""

    command_class = DocumentedCommand

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The commands in the order in which they are declared."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, each with its whole first sentence."""
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, first_sentence(each)) for name, each in named if each is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises UsageError for a word that is no command."""
        # Completion is asked in the middle of a word.
        if ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        word = args[0]
        is_unknown = self.get_command(ctx, word) is None
        # An unknown option stays click's: it knows the nearest one.
        if is_unknown and not word.startswith("-"):
            raise _unknown(ctx, self, word)
        return super().resolve_command(ctx, args)


def first_sentence(shown: click.Command) -> str:
    """What a command does, as a list of commands says it."""
    paragraph = (shown.help or "").partition("\n\n")[0]
    text = " ".join(paragraph.split())
    sentence, stop, _ = text.partition(". ")
    return f"{sentence}." if stop else text


def _takes_file(parameter: click.Parameter) -> bool:
    """Whether it is what a command mainly reads: a required file, or one of its own kind."""
    is_file = isinstance(parameter.type, click.Path) and parameter.metavar == "FILE"
    return is_file and parameter.opts[0] != "--config"


def _path_as_command(ctx: click.Context, group: click.Group, path: str) -> UsageError:
    """The error about a path where a command is to stand, with the options that take a file."""
    takers = [f"{each.opts[0]} {path}" for each in group.get_params(ctx) if _takes_file(each)]
    advice = f"write {' or '.join(takers)}" if takers else f"see `{ctx.command_path} --help`"
    if not Path(path).exists():
        advice = near_path(Path(path)) or advice
    return UsageError(f"{ctx.command_path}: `{path}` is a path and no command", hint=advice)


def _unknown(ctx: click.Context, group: click.Group, word: str) -> UsageError:
    """The error about a word that is no command here, with the commands of that name elsewhere."""
    names = group.list_commands(ctx)
    elsewhere = commands_named(word)
    is_path = Path(word).exists() or re.search(r"[./]", word)
    if is_path and not elsewhere and not near_names(word, names):
        return _path_as_command(ctx, group, word)
    if not elsewhere and ctx.parent is None:
        # All of them at once: `repro` is less like `report` than like `correctness replay`.
        below = {name for each in BELOW.values() for name in each}
        near = nearest(word, {*names, *below})
        elsewhere = commands_named(near) if near is not None and near not in names else []
    hint = did_you_mean(word, names)
    flags = {name for each in group.get_params(ctx) for name in each.opts}
    if f"--{word}" in flags:
        hint = f"did you mean `{ctx.command_path} --{word}`?"
    elif elsewhere:
        # `test` is a part of `pytest`, too.
        elsewhere = [f"ci-doctor {each}" for each in names if each.endswith(word)] + elsewhere
        hint = f"did you mean {' or '.join(f'`{line}`' for line in elsewhere)}?"
    return UsageError(f"{ctx.command_path}: no such command `{word}`", hint=hint)


# --- options that several commands share, each declared once, and the `--` in front of a command ---


F = TypeVar("F", bound=Callable[..., Any])
# A shell completes it; whoever reads it says what is wrong with it.
PATH: Final = click.Path(readable=False)


# Of commands that keep logs.
DEFAULT_DIRECTORY: Final = Path("ci-doctor-report")

pass_session = click.make_pass_decorator(Session)


def output_options(function: F) -> F:
    """`--json`, `--report-dir`, `--junit`: every command has them; the session keeps what they say."""
    return _output_options(function, _NAMED_FOLDER)


def run_output_options(function: F) -> F:
    """The same for commands that keep logs: they write a report in any case."""
    words = f"a folder in $CI_DOCTOR_REPORT_DIR, else {DEFAULT_DIRECTORY}"
    return _output_options(function, words)


def supervising_output_options(function: F) -> F:
    """The same for a command whose stdout is that of another program, unless it is a dry run."""
    as_json = "With --dry-run: print the report as JSON on stdout. Else report.json holds it."
    return _output_options(function, _NAMED_FOLDER, as_json)


_NAMED_FOLDER = "a folder in $CI_DOCTOR_REPORT_DIR, if that is set"
_AS_JSON = "Print the report as JSON on stdout; all other output goes to stderr."


def _output_options(function: F, directory: str, as_json: str = _AS_JSON) -> F:
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
            help=as_json,
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
    from ci_doctor.session.delivery import ExitPolicy

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
