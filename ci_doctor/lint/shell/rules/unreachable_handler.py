# SPDX-License-Identifier: Apache-2.0
"""Pure. Handlers of a failure behind a command in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.shell_node import NodeKind
from ci_doctor.lint.shell.shell_violation import script, violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_node import ShellNode
    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.violation import Violation

RULE: Final = LintRule(
    rule=Rule(
        id="shell/unreachable-handler",
        severity=Severity.ERROR,
        meaning="A command in the background has the status 0 as soon as it is started. A handler of its failure can never run.",
        remedy='Keep the process id, wait for readiness, and look at the process: `cmd & pid=$!`, then `kill -0 "$pid" || exit 1`.',
    ),
    bad=(
        script('( python3 proxy.py & ) || echo "no proxy"\n'),
        script("{ python3 proxy.py & } || exit 1\n"),
        script("if ! ( python3 proxy.py & ); then\n  exit 1\nfi\n"),
        script("if ! nohup python3 proxy.py & then\n  exit 1\nfi\n"),
        script("(cd app && ./serve > log 2>&1 &) || { echo failed; exit 1; }\n"),
    ),
    good=(
        script('[ -n "$PROXY" ] && ( python3 proxy.py & ) || echo "no proxy wanted"\n'),
        script('python3 proxy.py &\npid=$!\nkill -0 "$pid" || exit 1\n'),
        script("( python3 proxy.py ) || exit 1\n"),
        script("( python3 proxy.py & wait $! ) || exit 1\n"),
        script("( python3 a.py & ) && echo started\n"),
    ),
)


def check(program: ShellProgram) -> Iterator[Violation]:
    """And-ors and conditions whose status is that of a start in the background."""
    for node in program.nodes:
        if node.kind is NodeKind.AND_OR:
            for index, operator in enumerate(node.operators[: len(node.children) - 1]):
                if operator == "&&":
                    break
                if _only_starts(node.children[index]):
                    yield _report(program, node.children[index], "The command after `||`")
                    break
        elif node.kind is NodeKind.IF:
            conditions = [each for each in node.children if each.is_condition]
            if conditions and _decides_nothing(conditions[-1]):
                yield _report(program, conditions[-1], "One branch of this `if`")


def _report(program: ShellProgram, node: ShellNode, what: str) -> Violation:
    return violation(
        program, RULE, node, f"{what} can never run: the command in the background has the status 0"
    )


def _decides_nothing(condition: ShellNode) -> bool:
    if condition.background:
        return True
    if condition.kind is NodeKind.NEGATION and condition.children:
        return condition.children[0].background or _only_starts(condition.children[0])
    return _only_starts(condition)


def _only_starts(node: ShellNode) -> bool:
    """Whether it is a subshell or a group whose last command is put into the background."""
    while node.kind in (NodeKind.SUBSHELL, NodeKind.GROUP) and node.children:
        node = node.children[-1]
        if node.background:
            return True
    return False
