# SPDX-License-Identifier: Apache-2.0
"""A command of several words as the value of an option, without quotes around it."""

import shlex
from collections.abc import Sequence

import click


def quotes_hint(argv: Sequence[str], command: click.Command) -> str | None:
    """What to write, as a hint, if a value of `argv` lacks its quotes; None if none does."""
    line = quoted_line(argv, command)
    if line is None:
        return None
    # In backticks: a line to paste is never broken.
    shown = line if "`" in line else f"`{line}`"
    return f"quote a value of several words: {shown}"


def quoted_line(argv: Sequence[str], command: click.Command) -> str | None:
    """The command line `argv` with quotes around each value of several words; None without one.

    `argv` are the words after `ci-doctor`, of which `command` reads the options. A value ends at
    the next option of `command`, at `--`, and at a word of a command within it.
    """
    own, rest = _parted(argv)
    takes_value = _options(command)
    within = set(command.commands) if isinstance(command, click.Group) else set()
    words: list[str] = []
    is_changed = False
    index = 0
    while index < len(own):
        word = own[index]
        words.append(word)
        index += 1
        name, equals, _ = word.partition("=")
        if not takes_value.get(name, False):
            continue
        # `--service name=vllm serve` and `--service=name=vllm serve`.
        value = [words.pop()] if equals else []
        while index < len(own) and own[index] not in takes_value and own[index] not in within:
            value.append(own[index])
            index += 1
        is_changed = is_changed or len(value) > 1
        if value:
            words.append(" ".join(value))
    if not is_changed:
        return None
    return shlex.join(["ci-doctor", *words, *rest])


def _parted(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our words, and those from `--` on."""
    words = list(argv)
    if "--" not in words:
        return words, []
    end = words.index("--")
    return words[:end], words[end:]


def _options(command: click.Command) -> dict[str, bool]:
    """Every name of an option, and whether a value follows it."""
    names: dict[str, bool] = {}
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            takes_value = not parameter.is_flag and not parameter.count
            for name in (*parameter.opts, *parameter.secondary_opts):
                names[name] = takes_value
    return names
