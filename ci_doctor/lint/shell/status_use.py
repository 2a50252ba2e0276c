# SPDX-License-Identifier: Apache-2.0
"""Pure. What happens to the status of a command: who reads it, or that nobody does."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.shell.shell_program import OptionState, ShellOption
from ci_doctor.syntax.shell_nodes import NodeKind, ShellNode

if TYPE_CHECKING:
    from ci_doctor.lint.shell.shell_program import ShellProgram

_STATUS: Final = re.compile(r"\$\?|\$\{\?\}|PIPESTATUS")
_BARE_RETURN: Final = re.compile(r"(?:return|exit)\s*(?:;|$)")
_SEQUENCES: Final = frozenset(
    {
        NodeKind.PROGRAM,
        NodeKind.GROUP,
        NodeKind.SUBSHELL,
        NodeKind.DO,
        NodeKind.IF,
        NodeKind.ELIF,
        NodeKind.ELSE,
        NodeKind.CASE_ITEM,
        NodeKind.SUBSTITUTION,
        NodeKind.FUNCTION,
    }
)
# Their status is that of a part of them.
_COMPOUNDS: Final = frozenset(
    {NodeKind.LOOP, NodeKind.CASE, NodeKind.ASSIGNMENT, NodeKind.NEGATION}
)


class StatusUse(StrEnum):
    """What happens to a status.

    READ: a condition, an operator or `$?` reads it, or it is the program's own status. ENDS: errexit
    ends the program. RETURNED: it is the status of the function around it. IGNORED: nobody reads
    it. UNKNOWN: that depends on who calls the function, or on a trap.
    """

    READ = "read"
    ENDS = "ends"
    RETURNED = "returned"
    IGNORED = "ignored"
    LOST_IN_PIPE = "lost-in-pipe"
    LOST_IN_DECLARATION = "lost-in-declaration"
    UNKNOWN = "unknown"


class StatusUses:
    """Answers for the commands of one program."""

    def __init__(self, program: ShellProgram) -> None:
        self._program = program
        self.errexit = OptionState(program, ShellOption.ERREXIT)
        self.pipefail = OptionState(program, ShellOption.PIPEFAIL)
        self._traps_errors = bool(re.search(r"\btrap\b[^\n]*\bERR\b", program.text))

    def of(self, node: ShellNode) -> StatusUse:
        """What happens to the status of `node`."""
        current = node
        is_negated = False
        for parent in node.ancestors():
            if current.background:
                return StatusUse.IGNORED
            decided = self._inside(current, parent, is_negated=is_negated)
            if decided is not None:
                return decided
            is_negated = is_negated or _negates(parent)
            current = parent
        return StatusUse.IGNORED if current.background else StatusUse.READ

    def _inside(
        self, current: ShellNode, parent: ShellNode, *, is_negated: bool
    ) -> StatusUse | None:
        """What `parent` makes of the status of `current`; None if it becomes its own."""
        if current.is_condition:
            after = current.next_statement()
            is_last = after is None or not after.is_condition
            return StatusUse.READ if is_last else StatusUse.IGNORED
        if parent.kind in _SEQUENCES:
            return self._in_sequence(current, parent, is_negated=is_negated)
        if parent.kind is NodeKind.AND_OR:
            return None if parent.children[-1] is current else StatusUse.READ
        if parent.kind is NodeKind.PIPELINE:
            return self._in_pipe(current, parent)
        return _in_words(current, parent)

    def _in_pipe(self, current: ShellNode, pipeline: ShellNode) -> StatusUse | None:
        held = self.pipefail.at(pipeline)
        if pipeline.children[-1] is current or held:
            return None
        if held is None:
            return StatusUse.UNKNOWN
        after = pipeline.next_statement()
        head = self._program.text[after.start : after.end][:2000] if after is not None else ""
        return StatusUse.READ if "PIPESTATUS" in head else StatusUse.LOST_IN_PIPE

    def _in_sequence(
        self, current: ShellNode, parent: ShellNode, *, is_negated: bool
    ) -> StatusUse | None:
        if self._is_read_next(current):
            return StatusUse.READ
        failure = StatusUse.IGNORED if is_negated else self._on_failure(current)
        if failure is not StatusUse.IGNORED:
            return failure
        if _ends_branch(current, parent):
            return None
        if not _is_last(current):
            return StatusUse.IGNORED
        return StatusUse.RETURNED if _is_function_body(parent) else None

    def _on_failure(self, node: ShellNode) -> StatusUse:
        """What errexit makes of a failure here; IGNORED if it is off."""
        if self._traps_errors:
            return StatusUse.UNKNOWN
        held = self._errexit(node)
        if held is None:
            return StatusUse.UNKNOWN
        return StatusUse.ENDS if held else StatusUse.IGNORED

    def _errexit(self, node: ShellNode) -> bool | None:
        """Whether a failure of `node` ends the program (or its subshell)."""
        if is_exempt(node):
            return False
        held = self.errexit.at(node)
        if held is not True:
            return held
        function = node.enclosing(NodeKind.FUNCTION)
        if function is None:
            return True
        calls = self._program.by_name.get(function.word, [])
        if not calls:
            return True
        exempt = {is_exempt(call) for call in calls}
        return (not exempt.pop()) if len(exempt) == 1 else None

    def _is_read_next(self, node: ShellNode) -> bool:
        """Whether the next statement reads `$?`, or hands it on by a `return` or `exit` without a status."""
        after = node.next_statement()
        if after is None:
            return False
        following = self._program.text[after.start : min(after.end, after.start + 2000)]
        if after.kind in (NodeKind.IF, NodeKind.CASE, NodeKind.LOOP):
            following = following.partition("\n")[0]
        return bool(_STATUS.search(following) or _BARE_RETURN.fullmatch(following))


def _negates(node: ShellNode) -> bool:
    if node.kind is NodeKind.PIPELINE:
        node = node.children[0]
    return node.kind is NodeKind.NEGATION


def _in_words(current: ShellNode, parent: ShellNode) -> StatusUse | None:
    """A command substitution among words, or the parts of a compound command."""
    if parent.kind in _COMPOUNDS:
        return None
    if parent.kind is NodeKind.DECLARATION:
        return StatusUse.LOST_IN_DECLARATION
    if current.kind is NodeKind.SUBSTITUTION or parent.kind is NodeKind.HERE_DOCUMENT:
        return StatusUse.IGNORED
    return StatusUse.UNKNOWN


def _is_last(current: ShellNode) -> bool:
    after = current.next_statement()
    return after is None or after.kind is NodeKind.HERE_DOCUMENT


def _is_function_body(node: ShellNode) -> bool:
    if node.kind is NodeKind.FUNCTION:
        return True
    return node.parent is not None and node.parent.kind is NodeKind.FUNCTION


def _ends_branch(current: ShellNode, parent: ShellNode) -> bool:
    """Whether the status of `current` is that of the `if` around it, though more branches follow."""
    branches = (NodeKind.ELIF, NodeKind.ELSE)
    if current.kind in branches:
        return True
    if parent.kind not in (NodeKind.IF, NodeKind.ELIF):
        return False
    after = current.next_statement()
    return after is None or after.kind in branches


def use_of(program: ShellProgram, node: ShellNode) -> StatusUse:
    """What happens to the status of `node`, a node of `program`."""
    return program.once(StatusUses).of(node)


def is_exempt(node: ShellNode) -> bool:
    """Whether errexit is off for `node` by where it stands: a condition, the left of `&&` or `||`, after `!`."""
    current = node
    for parent in node.ancestors():
        if current.is_condition or parent.kind is NodeKind.NEGATION:
            return True
        if parent.kind is NodeKind.AND_OR and parent.children[-1] is not current:
            return True
        if parent.kind is NodeKind.FUNCTION:
            return False
        current = parent
    return False
