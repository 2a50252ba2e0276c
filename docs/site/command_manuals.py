# SPDX-License-Identifier: Apache-2.0
"""Reads the commands: from click's declarations to the documentation as data."""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from ci_doctor.commands.documented import (
    Documented,
    first_sentence,
    options_by_group,
    range_in_words,
)
from ci_doctor.commands.listing import COMMANDS
from ci_doctor.config.decoding import variable_name
from ci_doctor.configuration import SETTINGS
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.outcome import EXIT_CODE_MEANINGS

# What every command may end with: 75 if the machine lacks something (errors.py).
_ALWAYS: Final = (
    ExitCode.PASS,
    ExitCode.USAGE,
    ExitCode.BUG,
    ExitCode.INFRA,
    ExitCode.SIGINT,
    ExitCode.SIGTERM,
)
_DEFAULT: Final = re.compile(r"\s*\[default(?P<when>[^:\]]*): (?P<value>.*)\]$")
_PROGRAM: Final = "ci-doctor"


class OptionManual(Struct, frozen=True, kw_only=True):
    """An option: `names` such as `-h`, the word for its value if it takes one, its help in a phrase.

    `values` says which values it takes, `default` what an absent option means. `key` is the key of
    the configuration that it overrides, and `variable` the environment variable of that key.
    """

    names: tuple[str, ...]
    value: str | None
    help: str
    values: str | None
    default: str | None
    is_required: bool
    key: str | None
    variable: str | None


class OptionsManual(Struct, frozen=True, kw_only=True):
    """The options below one heading."""

    heading: str
    options: tuple[OptionManual, ...]


class CommandManual(Struct, frozen=True, kw_only=True):
    """A command: `words` as they are typed, and what its help says.

    `synopsis` is what stands behind the words. `commands` are those below it, with what each does, by
    its words. `exits` holds every exit code with its meaning. `group` is the heading of the root's help.
    """

    words: tuple[str, ...]
    group: str
    summary: str
    description: tuple[str, ...]
    synopsis: tuple[str, ...]
    options: tuple[OptionsManual, ...]
    commands: dict[tuple[str, ...], str]
    examples: dict[str, str]
    exits: dict[int, str]
    own_exits: frozenset[int]
    section: str | None

    @property
    def page(self) -> str:
        """Its name in addresses, as `ci-doctor-build-merge`."""
        return "-".join(self.words)


def manuals(root: click.Group, words: tuple[str, ...] = ()) -> Iterator[CommandManual]:
    """The documentation of a command and of all below it that people type, in order.

    `words` name it below `root`; no other command is imported. Raises KeyError if there is none.
    """
    context = command_at(click.Context(root, info_name=_PROGRAM, **root.context_settings), words)
    yield from _below(context.command, context, (_PROGRAM, *words))


def command_at(root: click.Context, words: tuple[str, ...]) -> click.Context:
    """The context of the command that `words` name below that of `root`. Raises KeyError."""
    context = root
    for word in words:
        context = _inner(context, word, _child(context.command, context, word))
    return context


def _below(
    shown: click.Command, context: click.Context, words: tuple[str, ...]
) -> Iterator[CommandManual]:
    children = _children(shown, context)
    yield _manual(shown, context, words, children)
    for name, child in children.items():
        yield from _below(child, _inner(context, name, child), (*words, name))


def _inner(context: click.Context, word: str, child: click.Command) -> click.Context:
    if word in getattr(context.command, "below", {}):
        # Its parent is a command with arguments, which click would write between the two words.
        name = f"{context.info_name} {word}"
        return child.context_class(child, info_name=name, parent=context.parent)
    return child.context_class(child, info_name=word, parent=context)


def _children(shown: click.Command, context: click.Context) -> dict[str, click.Command]:
    names = shown.list_commands(context) if isinstance(shown, click.Group) else []
    words = (*names, *getattr(shown, "below", {}))
    return {word: _child(shown, context, word) for word in words}


def _child(shown: click.Command, context: click.Context, word: str) -> click.Command:
    module = getattr(shown, "below", {}).get(word)
    if module is not None:
        attribute: click.Command = getattr(import_module(module), word)
        return attribute
    child = shown.get_command(context, word) if isinstance(shown, click.Group) else None
    if child is None:
        raise KeyError(word)
    return child


def _manual(
    shown: click.Command,
    context: click.Context,
    words: tuple[str, ...],
    children: dict[str, click.Command],
) -> CommandManual:
    documented = shown if isinstance(shown, Documented) else None
    section = documented.section if documented else None
    own = documented.exits if documented else {}
    first, *rest = _paragraphs(shown.help or "")
    listed = COMMANDS.get(words[1]) if len(words) > 1 else None
    return CommandManual(
        words=words,
        group=listed[0] if listed else "",
        summary=first,
        description=tuple(rest),
        synopsis=tuple(shown.collect_usage_pieces(context)),
        options=tuple(_options(shown, context, section)),
        commands={(*words, name): first_sentence(child) for name, child in children.items()},
        examples=documented.examples if documented else {},
        exits=_exits(own),
        own_exits=frozenset(own),
        section=section,
    )


def _exits(own: dict[int, str]) -> dict[int, str]:
    codes = sorted({*map(int, _ALWAYS), *own})
    exits = {code: own.get(code) or _usual(code) for code in codes}
    if ExitCode.INFRA in own:
        exits[ExitCode.INFRA] += "; or the machine lacks something that every command needs"
    return {code: f"{text[:1].upper()}{text[1:]}." for code, text in exits.items()}


def _usual(code: int) -> str:
    # Nothing was judged, so nothing passed.
    if code == ExitCode.PASS:
        return "The command did what it was asked for"
    meaning = EXIT_CODE_MEANINGS[ExitCode(code)].meaning
    return meaning.removesuffix(".")


def _options(
    shown: click.Command, context: click.Context, section: str | None
) -> Iterator[OptionsManual]:
    for heading, options in options_by_group(shown, context).items():
        listed = tuple(_option(each, context, section) for each in options)
        yield OptionsManual(heading=heading, options=listed)


def _option(each: click.Option, context: click.Context, section: str | None) -> OptionManual:
    text = " ".join((each.help or "").split())
    written = _DEFAULT.search(text)
    key = each.name if section is not None and each.name in _keys(section) else None
    return OptionManual(
        names=(*each.opts, *each.secondary_opts),
        value=None if each.is_flag or each.count else each.make_metavar(context),
        help=_DEFAULT.sub("", text),
        values=_values(each),
        default=_default(each, written),
        is_required=each.required,
        key=f"[{section}] {key}" if key else None,
        variable=variable_name(section, key) if section and key else None,
    )


def _default(each: click.Option, written: "re.Match[str] | None") -> str | None:
    if written is not None:
        return f"{written['value']}{written['when']}"
    # click hides what nobody gave in a value of its own.
    if each.show_default and isinstance(each.default, str | int | float):
        return str(each.default)
    return None


def _values(each: click.Option) -> str | None:
    kind: Any = each.type
    if isinstance(kind, click.Choice):
        return ", ".join(map(str, kind.choices))
    return range_in_words(kind)


def _keys(section: str) -> frozenset[str]:
    fields = msgspec.structs.fields(SETTINGS[section])
    return frozenset(field.name for field in fields)


def _paragraphs(text: str) -> list[str]:
    return [" ".join(each.split()) for each in text.split("\n\n")]
