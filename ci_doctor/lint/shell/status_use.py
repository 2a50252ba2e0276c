# SPDX-License-Identifier: Apache-2.0
"""Pure. What happens to the status of a command: who reads it, or that nobody does."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.shell.shell_node import NodeKind, ShellNode
from ci_doctor.lint.shell.shell_options import OptionState, ShellOption

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
        while True:
            parent = current.parent
            if current.background:
                return StatusUse.IGNORED
            if parent is None:
                return StatusUse.READ
            if parent.kind is NodeKind.NEGATION:
                is_negated = True
            elif parent.kind is NodeKind.AND_OR:
                if parent.children[-1] is not current:
                    return StatusUse.READ
            elif parent.kind is NodeKind.PIPELINE:
                if parent.children[-1] is not current and self.pipefail.at(parent) is not True:
                    return self._in_pipe(parent)
                is_negated = is_negated or parent.children[0].kind is NodeKind.NEGATION
            elif current.is_condition:
                return self._in_condition(current, parent)
            elif parent.kind in _SEQUENCES:
                decided = self._in_sequence(current, parent, is_negated=is_negated)
                if decided is not None:
                    return decided
            elif parent.kind is NodeKind.DECLARATION:
                return StatusUse.LOST_IN_DECLARATION
            elif parent.kind not in (NodeKind.LOOP, NodeKind.CASE, NodeKind.ASSIGNMENT):
                # A command substitution among the words of another command.
                return self._in_words(current, parent)
            current = parent

    def _in_words(self, current: ShellNode, parent: ShellNode) -> StatusUse:
        if parent.kind is NodeKind.COMMAND and not parent.word:
            return StatusUse.READ
        if parent.kind in (NodeKind.TEST, NodeKind.HERE_TEXT, NodeKind.HERE_DOCUMENT):
            return StatusUse.IGNORED
        return StatusUse.IGNORED if current.kind is NodeKind.SUBSTITUTION else StatusUse.UNKNOWN

    def _in_pipe(self, pipeline: ShellNode) -> StatusUse:
        if self.pipefail.at(pipeline) is None:
            return StatusUse.UNKNOWN
        after = pipeline.next_statement()
        head = self._program.text[after.start : after.end][:2000] if after is not None else ""
        return StatusUse.READ if "PIPESTATUS" in head else StatusUse.LOST_IN_PIPE

    @staticmethod
    def _in_condition(current: ShellNode, parent: ShellNode) -> StatusUse:
        conditions = [each for each in parent.children if each.is_condition]
        return StatusUse.READ if conditions[-1] is current else StatusUse.IGNORED

    def _in_sequence(
        self, current: ShellNode, parent: ShellNode, *, is_negated: bool
    ) -> StatusUse | None:
        """None if the status goes on as that of `parent`."""
        if self._is_read_next(current):
            return StatusUse.READ
        if not is_negated:
            if self._traps_errors:
                return StatusUse.UNKNOWN
            held = self._errexit(current)
            if held is not False:
                return StatusUse.ENDS if held else StatusUse.UNKNOWN
        if _ends_branch(current, parent):
            return None
        last = parent.children[-1]
        if last.kind is NodeKind.HERE_DOCUMENT:
            last = [each for each in parent.children if each.kind is not last.kind][-1]
        if last is not current:
            return StatusUse.IGNORED
        if parent.kind is NodeKind.FUNCTION or (
            parent.parent is not None and parent.parent.kind is NodeKind.FUNCTION
        ):
            return StatusUse.RETURNED
        return None

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


def _ends_branch(current: ShellNode, parent: ShellNode) -> bool:
    """Whether the status of `current` is that of the `if` around it, though more branches follow."""
    branches = (NodeKind.ELIF, NodeKind.ELSE)
    if current.kind in branches:
        return True
    if parent.kind not in (NodeKind.IF, NodeKind.ELIF):
        return False
    after = current.next_statement()
    return after is None or after.kind in branches


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
