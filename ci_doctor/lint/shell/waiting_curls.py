# SPDX-License-Identifier: Apache-2.0
"""Pure. The `curl` commands of wait loops, and the options that they have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.shell.shell_node import NodeKind
from ci_doctor.lint.shell.status_use import StatusUse, use_of
from ci_doctor.lint.shell.wait_loops import wait_loops, waits_until_ready

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_node import ShellNode
    from ci_doctor.lint.shell.shell_program import ShellProgram
from ci_doctor.lint.shell.wait_loops import WaitLoop

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
            if decides(program, node) and not any(
                _OPTIONS.match(each) for each in program.words(node).arguments
            ):
                yield node, loop


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


def option_after_name(program: ShellProgram, node: ShellNode, option: str) -> tuple[int, int, str]:
    """The edit that puts `option` after the word `curl`."""
    found = re.compile(r"\bcurl\b").search(program.text, node.start, node.end)
    place = found.end() if found else node.start
    return place, place, f" {option}"
