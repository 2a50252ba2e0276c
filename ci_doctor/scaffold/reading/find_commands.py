# SPDX-License-Identifier: Apache-2.0
"""Pure. The commands in a text that start a server."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.scaffold.reading.images import server_in_image
from ci_doctor.scaffold.reading.logical_lines import LogicalLine, logical_lines
from ci_doctor.scaffold.reading.programs import ELSEWHERE, RUNNERS, SPEAKERS, VERBS, WRAPPERS
from ci_doctor.scaffold.reading.server_command import ServerCommand
from ci_doctor.scaffold.reading.shell_words import SimpleCommand, commands_in
from ci_doctor.scaffold.reading.source_file import SourceFile, TextKind
from ci_doctor.scaffold.reading.variables import (
    assignments,
    make_variables,
    resolved,
    unknown_variables,
    values_at,
)
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
_ANY_SERVER: Final = re.compile(
    "|".join(map(re.escape, _LITERALS))
    + "|python|text-(?:generation|embeddings)-inference|llama.cpp:",
    re.IGNORECASE,
)


def server_commands(source: SourceFile) -> tuple[ServerCommand, ...]:
    """The commands of `source` that start a server, in their order; the first two hundred."""
    # Most files name none, and to read them word by word would take long.
    if _ANY_SERVER.search(source.text) is None:
        return ()
    return tuple(_limited(source))


def _limited(source: SourceFile) -> Iterator[ServerCommand]:
    count = 0
    set_in_text = list(assignments(source.text.split("\n"), source.kind))
    directory = ""
    for line in logical_lines(source):
        directory = _directory(line.text, source.kind, directory)
        if _ANY_SERVER.search(line.text) is None or _is_shown(line.text, source.kind):
            continue
        values = values_at(line.number, set_in_text)
        for started in _in_line(line, source, values, directory):
            yield started
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
        words = list(resolved(command.words, values))
        if words[:1] == ["cd"] and len(words) == 2:
            directory = words[1]
            continue
        started = _server_in(words, source)
        if started is None or _is_template(started.words):
            continue
        yield ServerCommand(
            kind=started.kind,
            file=source.path,
            line=line.number,
            place=source.place,
            text_kind=source.kind,
            words=started.words,
            arguments=started.arguments,
            env=_env(started.before),
            directory=directory,
            in_container=_is_elsewhere(started.before),
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


class _FoundServer(Struct, frozen=True, kw_only=True):
    """The words before a server, its own words, and the place of its arguments among these."""

    kind: str
    before: tuple[str, ...]
    words: tuple[str, ...]
    arguments: int


def _server_in(words: list[str], source: SourceFile) -> _FoundServer | None:
    for at, word in enumerate(words):
        if word.rpartition("/")[2] in SPEAKERS or word in VERBS:
            return None
        named = _named_at(words, at)
        if named is None:
            continue
        kind, end = named
        first = _with_runner(words, at)
        is_asked = bool(_HELP.intersection(words[end:]))
        if is_asked or not _may_start(words[:first], source.kind):
            return None
        before = tuple(words[:first])
        return _FoundServer(
            kind=kind, before=before, words=tuple(words[first:]), arguments=end - first
        )
    return _in_image(words)


def _in_image(words: list[str]) -> _FoundServer | None:
    image = server_in_image(words)
    named = kind_at(list(image.program), 0) if image is not None else None
    if image is None or named is None:
        return None
    kind, end = named
    # The program first, so that it is known to run elsewhere.
    before = (words[0], "docker", *image.variables)
    return _FoundServer(
        kind=kind.name, before=before, words=(*image.program, *image.arguments), arguments=end
    )


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


def _env(before: Sequence[str]) -> dict[str, str]:
    """The assignments before a command; one that hands on a variable of the job sets nothing."""
    made = {}
    for word in before:
        name, _, value = word.partition("=")
        if _ASSIGNMENT.match(word) and unknown_variables([value]) != (name,):
            made[name] = value
    return made


def _is_elsewhere(before: Sequence[str]) -> bool:
    return any(word.rpartition("/")[2] in ELSEWHERE for word in before)


def _is_shown(line: str, kind: TextKind) -> bool:
    """Whether a line of documentation leaves a part of the command to its reader."""
    return kind is TextKind.MARKDOWN and _PLACEHOLDER.search(line) is not None


def _is_template(words: tuple[str, ...]) -> bool:
    """Whether another program fills in a part of it before a shell sees it."""
    return any(_TEMPLATE.search(word) for word in words)
