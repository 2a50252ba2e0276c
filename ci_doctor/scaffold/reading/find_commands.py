# SPDX-License-Identifier: Apache-2.0
"""Pure. The commands in a text that start a server."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ci_doctor.scaffold.reading.logical_lines import LogicalLine, logical_lines
from ci_doctor.scaffold.reading.programs import ELSEWHERE, RUNNERS, SPEAKERS, VERBS, WRAPPERS
from ci_doctor.scaffold.reading.server_command import ServerCommand
from ci_doctor.scaffold.reading.shell_words import SimpleCommand, commands_in
from ci_doctor.scaffold.reading.source_file import SourceFile, TextKind
from ci_doctor.scaffold.reading.variables import assignments, make_variables, resolved
from ci_doctor.scaffold.servers.table import KINDS, PYTHON_PROGRAM, kind_at

_MOST_PER_FILE: Final = 200
_DEEPEST: Final = 3
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_PYTHON: Final = re.compile(r"(?:.*/)?python(?:3(?:\.\d+)?)?")
_SCRIPT_OPTION: Final = re.compile(r"-[a-z]*c")
_TEMPLATE: Final = re.compile(r"\{\{|\{%|<[A-Za-z][\w -]*>")
_PLACEHOLDER: Final = re.compile(r"<[\w \|/-]+>|\.\.\.|\bYOUR_|\[OPTIONS\]")
_HELP: Final = frozenset({"--help", "-h", "--version"})
_LITERALS: Final = tuple(
    sorted({start[0] if start[0] != "-m" else start[1] for kind in KINDS for start in kind.starts})
)
_ANY_SERVER: Final = re.compile("|".join(map(re.escape, _LITERALS)) + r"|python[\d.]*\s|python")


def server_commands(source: SourceFile) -> tuple[ServerCommand, ...]:
    """The commands of `source` that start a server, in their order; the first two hundred."""
    # Most files name none, and to read them word by word would take long.
    if _ANY_SERVER.search(source.text) is None:
        return ()
    return tuple(_limited(source))


def _limited(source: SourceFile) -> Iterator[ServerCommand]:
    count = 0
    set_in_text = list(assignments(source.text.split("\n"), source.kind))
    values: dict[str, str] = {}
    directory = ""
    for line in logical_lines(source):
        directory = _directory(line.text, source.kind, directory)
        if _ANY_SERVER.search(line.text) is None or _is_shown(line.text, source.kind):
            continue
        # Those set above it, and if there is no other, those below: a Makefile has no order.
        values = {name: value for _, name, value in reversed(set_in_text)}
        values |= {name: value for number, name, value in set_in_text if number <= line.number}
        for found in _in_line(line, source, values, directory):
            yield found
            count += 1
        if count >= _MOST_PER_FILE:
            return


def _directory(line: str, kind: TextKind, directory: str) -> str:
    """Where a command behind this line runs: GitHub's `working-directory`, and `cd` in a script."""
    match = re.match(r"working-directory: *[\"']?([\w./-]+)", line)
    if match is None and kind is TextKind.SHELL:
        match = re.match(r"cd +[\"']?([\w./-]+)[\"']? *$", line)
    return match[1] if match is not None else directory


def _in_line(
    line: LogicalLine, source: SourceFile, values: Mapping[str, str], directory: str
) -> Iterator[ServerCommand]:
    text = make_variables(line.text) if source.kind is TextKind.MAKEFILE else line.text
    for command in _commands(text, 0):
        words = list(command.words)
        if words[0] == "cd" and len(words) == 2:
            directory = words[1]
            continue
        found = _server_in(words, source)
        if found is None:
            continue
        kind, first, behind = found
        # The words that name the server have no variables, so its place stays.
        filled = (*words[first:behind], *resolved(words[behind:], values))
        if _is_template(filled):
            continue
        yield ServerCommand(
            kind=kind,
            file=source.path,
            line=line.number,
            place=source.place,
            text_kind=source.kind,
            words=filled,
            arguments=behind - first,
            env=_env(words[:first], values),
            directory=directory,
            in_container=_is_elsewhere(words[:first]),
            in_background=command.in_background,
        )


def _commands(text: str, depth: int) -> Iterator[SimpleCommand]:
    """The commands of a line, and those in the text of a `bash -c`."""
    for command in commands_in(text):
        yield command
        if depth >= _DEEPEST:
            continue
        before = ""
        for word in command.words:
            name, equals, value = word.partition("=")
            if equals and name.isidentifier() and " " in value:
                # `CMD="vllm serve …"`, which is run by its name.
                word = value  # noqa: PLW2901
                before = "-c"
            if _SCRIPT_OPTION.fullmatch(before) and " " in word:
                # The outer shell has expanded what was not quoted; the marks are the inner one's.
                inner = word.replace("\ue000", "$").replace("\ue001", "$")
                yield from _commands(inner, depth + 1)
            before = word


def _server_in(words: list[str], source: SourceFile) -> tuple[str, int, int] | None:
    """The kind of server, the place of its first word, and that behind its name; None without one."""
    for at, word in enumerate(words):
        if word.rpartition("/")[2] in SPEAKERS or word in VERBS:
            return None
        found = _named_at(words, at)
        if found is None:
            continue
        kind, end = found
        first = _with_runner(words, at)
        is_asked = bool(_HELP.intersection(words[end:]))
        if is_asked or not _may_start(words[:first], source.kind):
            return None
        return kind, first, end
    return None


def _named_at(words: list[str], at: int) -> tuple[str, int] | None:
    """The kind of server that is named at a place, and the place behind its name."""
    place = at
    if _PYTHON.fullmatch(words[at]):
        place = at + 1
        while place < len(words) and words[place].startswith("-") and words[place] != "-m":
            place += 1
    elif words[at] == "-m":
        # Of `torchrun -m` and the like nothing is known.
        return None
    named = kind_at(words, place)
    if named is not None:
        kind, end = named
        return kind.name, end
    if place == at or place + 1 > len(words):
        return None
    if words[place] == "-m":
        # A module of the repository, perhaps.
        return (PYTHON_PROGRAM, place + 2) if place + 1 < len(words) else None
    return (PYTHON_PROGRAM, place + 1) if words[place].endswith(".py") else None


def _may_start(before: list[str], kind: TextKind) -> bool:
    """Whether the words before a server's name run it, and are not a sentence about it."""
    first = next((word for word in before if not _ASSIGNMENT.match(word)), None)
    if first is None:
        return True
    program = first.rpartition("/")[2]
    # A script may have functions of its own: `launch vllm serve …`.
    return (
        program in WRAPPERS or program in RUNNERS or program in ELSEWHERE or kind is TextKind.SHELL
    )


def _with_runner(words: list[str], at: int) -> int:
    """The place of `uv run …` before the server's own words, if that is what starts it."""
    for place in range(at):
        if words[place] in RUNNERS and "run" in words[place:at]:
            return place
    return at


def _env(before: list[str], values: Mapping[str, str]) -> dict[str, str]:
    made = {}
    for word in before:
        if _ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            made[name] = "".join(resolved([value], values))
    return made


def _is_elsewhere(before: list[str]) -> bool:
    return any(word.rpartition("/")[2] in ELSEWHERE for word in before)


def _is_shown(line: str, kind: TextKind) -> bool:
    """Whether a line of documentation leaves a part of the command to its reader."""
    return kind is TextKind.MARKDOWN and _PLACEHOLDER.search(line) is not None


def _is_template(words: tuple[str, ...]) -> bool:
    """Whether another program fills in a part of it before a shell sees it."""
    return any(_TEMPLATE.search(word) for word in words)
