# SPDX-License-Identifier: Apache-2.0
"""Pure. Functions that wait and can return a failure: through their own loop, or through another such function."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.shell.shell_node import NodeKind, ShellNode
from ci_doctor.lint.shell.status_use import StatusUse, use_of
from ci_doctor.lint.shell.wait_loops import wait_loops

if TYPE_CHECKING:
    from ci_doctor.lint.shell.shell_program import ShellProgram

_DEPTH: Final = 4
# What a loop with pauses is written with, in this order.
_LOOP_WORDS: Final = tuple(map(re.compile, (r"\b(?:until|while)\b", r"\bsleep\b", r"\bdone\b")))
# Names of what waits for an end, not for a start: in a cleanup a failure is expected.
TEARDOWN: Final = re.compile(
    r"(?i)clean|stop|kill|shut|exit|down|free|clear|teardown|finish|drain|term"
)
# Functions that make a service ready, and commands that only say so.
_STARTS: Final = re.compile(r"(?i)wait|start|launch|serv|deploy|setup|ready|health|boot|init|up\b")
_SAYS: Final = frozenset({"echo", "printf", "log", "info", "return", "true", "export"})
_ASKS: Final = re.compile(
    r"\bcurl\b|\bnc\b|\bwget\b|/dev/tcp|\bgrep\b|pg_isready|\bss\b|nvidia-smi"
)


def failing_exit(
    program: ShellProgram, name: str, depth: int = 0
) -> tuple[ShellProgram, ShellNode] | None:
    """Where function `name` returns the failure of a wait, with the program that is in; None if it does not."""
    known = program.definition(name)
    if known is None or depth > _DEPTH:
        return None
    owner, function = known
    place = owner.once(WaitFunctions).exit_of(function, depth)
    return None if place is None else (owner, place)


class WaitFunctions:
    """Answers for the functions that one program defines."""

    def __init__(self, program: ShellProgram) -> None:
        self._program = program
        self._known: dict[str, ShellNode | None] = {}

    def exit_of(self, function: ShellNode, depth: int) -> ShellNode | None:
        """Where `function` returns the failure of a wait; None if it does not."""
        if function.word not in self._known:
            self._known[function.word] = None  # a function that calls itself
            self._known[function.word] = self._search(function, depth)
        return self._known[function.word]

    def _search(self, function: ShellNode, depth: int) -> ShellNode | None:
        waits = any(
            function.start <= loop.node.start < function.end for loop in wait_loops(self._program)
        )
        if waits:
            return self._failing_return(function)
        for node in function.own():
            if node.kind is not NodeKind.COMMAND or not node.word or TEARDOWN.search(node.word):
                continue
            if not is_direct_wait(self._program, node) and not (
                node.word != function.word and failing_exit(self._program, node.word, depth + 1)
            ):
                continue
            use = use_of(self._program, node)
            if use is StatusUse.RETURNED:
                return node
            if use is StatusUse.READ:
                answer = self._returned_after(node, function)
                if answer is not None and self._is_start(node, function):
                    return answer
        return None

    def _is_start(self, wait: ShellNode, function: ShellNode) -> bool:
        """Whether `function` only starts something: it ends with the wait, or is called so.

        One that goes on to use the service, such as `run_benchmark`, has read the wait's failure itself.
        """
        if _STARTS.search(function.word):
            return True
        body = function.children[-1] if function.children else function
        rest = [each for each in body.children if each.start > wait.start]
        return all(
            each.word in _SAYS or each.background or each.kind is NodeKind.ASSIGNMENT
            for each in rest
            if not each.start <= wait.start < each.end
        )

    def _failing_return(self, function: ShellNode) -> ShellNode | None:
        for node in function.own():
            if node.kind is NodeKind.COMMAND and node.word == "return" and not _in_subshell(node):
                words = self._program.words(node).arguments
                if words and words[0] != "0":
                    return node
        body = function.children[-1] if function.children else function
        last = body.children[-1] if body.children else body
        is_failure = last.kind is NodeKind.TEST or last.word in ("false", "test")
        return last if is_failure else None

    def _returned_after(self, node: ShellNode, function: ShellNode) -> ShellNode | None:
        """A `return 1` of the statement that reads the status: `wait_x || return 1`, `if ! wait_x; then return 1; fi`."""
        for statement in node.ancestors():
            if statement is function:
                return None
            if statement.kind in (NodeKind.AND_OR, NodeKind.IF):
                for each in statement.own():
                    if each.kind is NodeKind.COMMAND and each.word == "return":
                        words = self._program.words(each).arguments
                        if words and words[0] != "0":
                            return each
                return None
        return None


def is_direct_wait(program: ShellProgram, node: ShellNode) -> bool:
    """Whether a command itself waits for something with a time limit, and fails when it is over."""
    words = program.words(node)
    if words.name in ("bash", "sh"):
        if not words.is_limited or "-c" not in words.arguments:
            return False
        script = words.arguments[-1]
        return _has_wait_loop(script) and _ASKS.search(script) is not None
    if words.name in ("kubectl", "oc"):
        return "wait" in words.arguments[:3] or words.arguments[:2] == ("rollout", "status")
    return words.name in (
        "wait-for-it.sh",
        "wait-for-it",
        "wait-for",
        "wait_for_it.sh",
        "dockerize",
    )


def _has_wait_loop(script: str) -> bool:
    """Whether the words of a loop stand in a script that is an argument."""
    end = 0
    for word in _LOOP_WORDS:
        match = word.search(script, end)
        if match is None:
            return False
        end = match.end()
    return True


def _in_subshell(node: ShellNode) -> bool:
    around = node.enclosing(NodeKind.SUBSHELL, NodeKind.SUBSTITUTION)
    return around is not None and around.kind is not NodeKind.FUNCTION
