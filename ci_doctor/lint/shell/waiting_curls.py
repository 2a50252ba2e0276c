# SPDX-License-Identifier: Apache-2.0
"""Pure. The `curl` commands of wait loops, and the options that they have."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.shell.shell_node import NodeKind
from ci_doctor.lint.shell.status_use import StatusUse, use_of
from ci_doctor.lint.shell.wait_loops import wait_loops, waits_until_ready

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_node import ShellNode
    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.shell.shell_words import CommandWords
    from ci_doctor.lint.shell.wait_loops import WaitLoop
    from ci_doctor.lint.violation import Edit

_OUTPUT: Final = re.compile(r"--output|-[a-zA-Z]*o")
# Options that a variable holds: what they are is unknown.
_OPTIONS: Final = re.compile(r"(?i)\$\{?\w*(?:opt|arg|flag|curl|timeout|extra|auth)\w*")


def waiting_curls(program: ShellProgram) -> Iterator[tuple[ShellNode, WaitLoop]]:
    """Each `curl` of a loop that waits until something is ready, with options that are known."""
    if "curl" not in program.text or program.definition("curl") is not None:
        return
    for loop in wait_loops(program):
        curls = [each for each in loop.probes if program.words(each).name == "curl"]
        if not curls or not waits_until_ready(program, loop):
            continue
        for node in curls:
            words = program.words(node)
            if any(_OPTIONS.match(each) for each in words.arguments):
                continue
            if decides(program, node) and not _downloads(words) and not _unpacks(program, node):
                yield node, loop


def _downloads(words: CommandWords) -> bool:
    """Whether it keeps what it gets as a file, and prints no status: it fetches, it does not ask."""
    if words.has("-w", "--write-out") or "w" in words.flags():
        return False
    if words.has("--remote-name") or "O" in words.flags():
        return True
    pairs = pairwise(words.arguments)
    kept = [value for option, value in pairs if _OUTPUT.fullmatch(option)]
    return any(value not in ("/dev/null", "-") for value in kept)


def _unpacks(program: ShellProgram, node: ShellNode) -> bool:
    """Whether what it prints is an archive or a program: `curl … | tar xz`."""
    pipeline = node.parent
    if pipeline is None or pipeline.kind is not NodeKind.PIPELINE:
        return False
    readers = [each for each in pipeline.children if each is not node and each.word]
    return any(program.words(each).name in _UNPACKERS for each in readers)


_UNPACKERS: Final = frozenset({"tar", "gunzip", "zcat", "unxz", "unzstd", "gpg", "sh", "bash"})


def decides(program: ShellProgram, node: ShellNode) -> bool:
    """Whether its status or what it prints is read at all."""
    if node.enclosing(NodeKind.SUBSTITUTION, NodeKind.TEST) is not None:
        return True
    return use_of(program, node) in (StatusUse.READ, StatusUse.LOST_IN_PIPE)


def is_limited(program: ShellProgram, node: ShellNode) -> bool:
    """Whether a `curl` has a time limit of its own, or `timeout` before it."""
    words = program.words(node)
    return (
        words.is_limited
        or "m" in words.flags()
        or words.has("--max-time", "--connect-timeout", "--speed-time")
    )


def option_edits(program: ShellProgram, node: ShellNode, option: str) -> tuple[Edit, ...]:
    """The edit that puts `option` after the word `curl`; none unless its effect is known.

    Known is it where the command's own status decides whether the loop goes on, and where it asks a
    page that answers 200 to GET at once when a server is ready. `/v1/completions` does neither.
    """
    asks = any(_READINESS.search(each) for each in program.words(node).arguments)
    names = [place for place in node.words if program.text[slice(*place)] == "curl"]
    if not asks or len(names) != 1 or use_of(program, node) is not StatusUse.READ:
        return ()
    if (
        node.enclosing(NodeKind.SUBSTITUTION) is not None
        or node.parent is None
        or node.parent.kind is NodeKind.PIPELINE
    ):
        return ()
    return program.edits((names[0][1], names[0][1], f" {option}"))


_READINESS: Final = re.compile(
    r"/(?:health\w*|health/\w+|v2/health/\w+|ready\w*|live\w*|ping|version|v1/models)/?$"
)
