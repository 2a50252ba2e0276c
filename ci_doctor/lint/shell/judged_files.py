# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a later command judges what a command writes, and how a sentence calls a command."""

from __future__ import annotations

import bisect
import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.shell.checking_commands import is_quiet
from ci_doctor.lint.shell.shell_node import NodeKind, ShellNode

if TYPE_CHECKING:
    from ci_doctor.lint.shell.shell_program import ShellProgram

_LONGEST: Final = 60
_MOST_READERS: Final = 20
_WORD: Final = re.compile(r"[\w./${}-]+")
_FILE: Final = re.compile(
    r"[\w./${}-]*[\w}]\.(?:xml|json|jsonl|log|txt|csv|out|html|tap|yaml|yml)\b|\$\{?\w*(?:LOG|OUT|REPORT|RESULT|FILE)\w*\}?",
    re.IGNORECASE,
)
_TARGET: Final = re.compile(r"(?:>>?|\btee(?:\s+-a|\s+--append)?)\s*([\w./${}\"'-]+)")
_SHOWS: Final = frozenset(
    [
        "cat",
        "tail",
        "head",
        "echo",
        "printf",
        "less",
        "rm",
        "cp",
        "mv",
        "gzip",
        "ls",
        "tee",
        "curl",
        "aws",
        "touch",
        "mkdir",
    ]
)


def named(program: ShellProgram, node: ShellNode) -> str:
    """A command as a sentence calls it: its first line from its name on, of at most 60 characters."""
    start = node.words[0][0] if node.kind is NodeKind.COMMAND and node.words else node.start
    line = program.source.text[start : node.end].partition("\n")[0].removesuffix("\\")
    text = " ".join(line.split())
    return (
        text
        if len(text) <= _LONGEST
        else f"{text[:_LONGEST].rpartition(' ')[0] or text[:_LONGEST]} …"
    )


def is_judged_later(program: ShellProgram, node: ShellNode) -> bool:
    """Whether a later command reads a file that this one writes, and may fail for what is in it."""
    statement = node
    for parent in node.ancestors():
        if parent.kind not in (NodeKind.AND_OR, NodeKind.PIPELINE):
            break
        statement = parent
    text = program.of_node(statement)[:4000]
    files = {each.strip("\"'") for each in (*_FILE.findall(text), *_TARGET.findall(text))}
    files = {each for each in files if len(each) > 2 and not each.startswith(("&", "/dev/"))}
    if not files:
        return False
    places = program.once(_words_of)
    for file in files:
        known = places.get(file, [])
        first = bisect.bisect_left(known, statement.end)
        if any(_judges(program, place) for place in known[first : first + _MOST_READERS]):
            return True
    return False


def _words_of(program: ShellProgram) -> dict[str, list[int]]:
    """Where each word of the text stands that may be a file's name."""
    places: dict[str, list[int]] = {}
    for match in _WORD.finditer(program.text):
        places.setdefault(match[0], []).append(match.start())
    return places


def _judges(program: ShellProgram, place: int) -> bool:
    reader = program.innermost(place)
    while reader is not None and reader.kind not in (NodeKind.COMMAND, NodeKind.TEST):
        reader = reader.parent
    if reader is None:
        return False
    return reader.kind is NodeKind.TEST or not _only_shows(program, reader)


def _only_shows(program: ShellProgram, reader: ShellNode) -> bool:
    words = program.words(reader)
    in_pipe = reader.parent is not None and reader.parent.kind is NodeKind.PIPELINE
    in_words = any(each.kind is NodeKind.SUBSTITUTION for each in reader.ancestors())
    if in_words or (
        in_pipe and reader.parent is not None and reader.parent.children[-1] is not reader
    ):
        return False
    return words.name in _SHOWS or is_quiet(program, reader)
