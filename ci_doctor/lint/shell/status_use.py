# SPDX-License-Identifier: Apache-2.0
"""Pure. What happens to the status of a command: who reads it, or that nobody does."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

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
_BRANCHES: Final = (NodeKind.ELIF, NodeKind.ELSE)


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
    UNKNOWN = "unknown"


def use_of(program: ShellProgram, node: ShellNode) -> StatusUse:
    """What happens to the status of `node`, a node of `program`."""
    current = node
    is_negated = False
    for parent in node.ancestors():
        if current.background:
            return StatusUse.IGNORED
        decided = _inside(program, current, parent, is_negated=is_negated)
        if decided is not None:
            return decided
        first = parent.children[0] if parent.kind is NodeKind.PIPELINE else parent
        is_negated = is_negated or first.kind is NodeKind.NEGATION
        current = parent
    return StatusUse.IGNORED if current.background else StatusUse.READ


def _inside(
    program: ShellProgram, current: ShellNode, parent: ShellNode, *, is_negated: bool
) -> StatusUse | None:
    """What `parent` makes of the status of `current`; None if it becomes its own."""
    if current.is_condition:
        after = current.next_statement()
        is_last = after is None or not after.is_condition
        return StatusUse.READ if is_last else StatusUse.IGNORED
    if parent.kind in _SEQUENCES:
        return _in_sequence(program, current, parent, is_negated=is_negated)
    if parent.kind is NodeKind.AND_OR:
        return None if parent.children[-1] is current else StatusUse.READ
    if parent.kind is NodeKind.PIPELINE:
        return _in_pipe(program, current, parent)
    if parent.kind in _COMPOUNDS:
        return None
    # A command substitution among words.
    is_inside = current.kind is NodeKind.SUBSTITUTION or parent.kind is NodeKind.HERE_DOCUMENT
    return StatusUse.IGNORED if is_inside else StatusUse.UNKNOWN


def _in_pipe(program: ShellProgram, current: ShellNode, pipeline: ShellNode) -> StatusUse | None:
    held = program.pipefail.at(pipeline)
    if pipeline.children[-1] is current or held:
        return None
    if held is None:
        return StatusUse.UNKNOWN
    after = pipeline.next_statement()
    is_read = after is not None and "PIPESTATUS" in program.of_node(after)[:2000]
    return StatusUse.READ if is_read else StatusUse.LOST_IN_PIPE


def _in_sequence(
    program: ShellProgram, current: ShellNode, parent: ShellNode, *, is_negated: bool
) -> StatusUse | None:
    after = current.next_statement()
    if after is not None:
        # Whether it reads `$?`, or hands it on by a `return` or `exit` without a status.
        following = program.of_node(after)[:2000]
        if after.kind in (NodeKind.IF, NodeKind.CASE, NodeKind.LOOP):
            following = following.partition("\n")[0]
        if _STATUS.search(following) or _BARE_RETURN.fullmatch(following):
            return StatusUse.READ
    if not is_negated and program.exempt_by(current) is None:
        held = None if program.traps_errors else program.errexit.at(current)
        if held is not False:
            return StatusUse.UNKNOWN if held is None else StatusUse.ENDS
    # The status of a branch is that of the `if` around it, though more branches follow.
    ends_branch = after is None or after.kind in _BRANCHES
    is_if = parent.kind in (NodeKind.IF, NodeKind.ELIF)
    if current.kind in _BRANCHES or (is_if and ends_branch):
        return None
    if after is not None and after.kind is not NodeKind.HERE_DOCUMENT:
        return StatusUse.IGNORED
    outer = parent if parent.kind is NodeKind.FUNCTION else parent.parent
    is_body = outer is not None and outer.kind is NodeKind.FUNCTION
    return StatusUse.RETURNED if is_body else None
