# SPDX-License-Identifier: Apache-2.0
"""Pure. `$?` that is the status of another command than the one meant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.checking_commands import always_succeeds, is_quiet
from ci_doctor.lint.shell.failure_fate import STATUS
from ci_doctor.lint.shell.judged_files import named
from ci_doctor.lint.shell.shell_node import NodeKind, ShellNode
from ci_doctor.lint.shell.shell_violation import script, violation
from ci_doctor.lint.shell.status_use import StatusUse, use_of
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.violation import Violation

RULE: Final = LintRule(
    rule=Rule(
        id="shell/stale-status",
        severity=Severity.ERROR,
        meaning="`$?` is the status of the last command alone. Behind an `echo`, a `set -e`, a test, a start in the background or a bare `wait` it is 0, whatever the command before has done.",
        remedy="Keep the status at once: `cmd; rc=$?`, or `cmd || rc=$?`, and read `$rc` from then on.",
    ),
    bad=(
        script('pytest tests\necho "tests are done"\nif [ $? -ne 0 ]; then exit 1; fi\n'),
        script("set +e\npytest tests\nset -e\nrc=$?\nexit $rc\n"),
        script("pytest tests &\nrc=$?\nexit $rc\n"),
        script("pytest a &\npytest b &\nwait\nexit $?\n"),
        script("pytest tests\nrc=$?\nif [ $rc -ne 0 ]; then\n  echo failed\n  exit $?\nfi\n"),
        script("pytest tests\nif [ $? -ne 0 ]; then\n  exit $?\nfi\n"),
        script("pytest tests || { echo failed; exit $?; }\n"),
        script("pytest tests\n[ $? -ne 0 ] && exit $?\n"),
    ),
    good=(
        script('pytest tests\nrc=$?\necho "tests are done"\nif [ $rc -ne 0 ]; then exit 1; fi\n'),
        script("set +e\npytest tests\nrc=$?\nset -e\nexit $rc\n"),
        script("pytest tests &\npid=$!\nwait $pid\nrc=$?\nexit $rc\n"),
        script("pytest tests || { rc=$?; echo failed; exit $rc; }\n"),
        script("pytest tests || exit $?\n"),
        script(
            "cleanup() {\n  rc=$?\n  docker stop server\n  exit $rc\n}\ntrap cleanup EXIT\npytest tests\n"
        ),
        script("set -e\npytest tests\necho done\nexit $?\n"),
    ),
)

_COMPARED: Final = re.compile(r"-ne\b|-gt\b|!=|>|-eq\s*[\"']?[1-9]|-ge\b|-z\b|-n\b|==?")


def check(program: ShellProgram) -> Iterator[Violation]:
    """Statements that read `$?` where it is 0 in any case, and something before could have failed."""
    if "$?" not in program.text and "${?}" not in program.text:
        return
    for match in STATUS.finditer(program.text):
        node = program.innermost(match.start())
        statement = _statement(program, node, match.start()) if node is not None else None
        if statement is None:
            continue
        cause = _cause(program, statement)
        if cause is not None:
            writer, meant = cause
            name = named(program, writer)
            yield violation(
                program,
                RULE,
                statement,
                f"`$?` is 0 here: it is the status of `{name}`"
                + (f", not of `{meant}`" if meant else ""),
                remedy=f"Write `{meant} || rc=$?`, and read `$rc` here"
                if meant
                else "Keep the status at once: `rc=$?`",
            )


def _statement(program: ShellProgram, node: ShellNode, offset: int) -> ShellNode | None:  # noqa: C901, PLR0911 - one branch for each case
    """The statement whose first command reads `$?` at `offset`; None if another command runs before inside it."""
    current = node
    while current.parent is not None:
        parent = current.parent
        if current.kind in (NodeKind.HERE_TEXT, NodeKind.HERE_DOCUMENT, NodeKind.SUBSTITUTION):
            return None
        if parent.kind in (NodeKind.AND_OR, NodeKind.PIPELINE, NodeKind.NEGATION):
            if parent.kind is NodeKind.AND_OR and parent.children[0] is not current:
                return current
            if parent.children[0] is not current:
                return None
            current = parent
            continue
        if current.is_condition and parent.kind is NodeKind.IF:
            if parent.children[0] is not current:
                return None
            current = parent
            continue
        if current.kind not in (
            NodeKind.COMMAND,
            NodeKind.ASSIGNMENT,
            NodeKind.DECLARATION,
            NodeKind.TEST,
            NodeKind.AND_OR,
            NodeKind.IF,
            NodeKind.PIPELINE,
            NodeKind.NEGATION,
            NodeKind.CASE,
        ):
            return None
        if current.word in ("echo", "printf", "log", "info", "trap"):
            return None  # a message decides nothing
        # A string in single quotes is for another program.
        return (
            current if "'" not in program.text[current.start : offset].replace("\\'", "") else None
        )
    return None


def _cause(program: ShellProgram, statement: ShellNode) -> tuple[ShellNode, str] | None:  # noqa: C901, PLR0911 - one branch for each case
    """What gives the 0, and the command whose status was meant, if it is known."""
    parent = statement.parent
    if parent is not None and parent.kind is NodeKind.AND_OR:
        place = parent.children.index(statement)
        left = parent.children[place - 1]
        is_after_test = parent.operators[place - 1] == "&&" and left.kind is NodeKind.TEST
        if is_after_test and statement.word in ("exit", "return"):
            return (left, "") if _COMPARED.search(program.of_node(left)) else None
        return None
    before = [each for each in statement.preceding(8) if each.kind is not NodeKind.HERE_DOCUMENT]
    if not before or before[0].is_condition:
        return _after_condition(program, statement, before[0] if before else None)
    writer = before[0]
    if writer.background or (
        writer.word == "wait"
        and not program.words(writer).arguments
        and writer.kind is NodeKind.COMMAND
    ):
        name = named(program, writer)
        return writer, name if writer.background else ""
    if not always_succeeds(program, writer) or STATUS.search(program.of_node(writer)):
        return None
    for each in before[1:]:
        if each.is_condition:
            return _after_condition(program, statement, each, writer)
        if STATUS.search(program.of_node(each)):
            return None
        if always_succeeds(program, each) and not each.background:
            continue
        if each.kind in (
            NodeKind.COMMAND,
            NodeKind.PIPELINE,
            NodeKind.SUBSHELL,
            NodeKind.GROUP,
            NodeKind.ASSIGNMENT,
        ) and not is_quiet(program, each):
            if use_of(program, each) is not StatusUse.IGNORED:
                return None
            return writer, named(program, each)
        return None
    is_branch = parent is not None and (
        parent.kind in (NodeKind.IF, NodeKind.ELSE, NodeKind.ELIF) or _handles(parent)
    )
    return (writer, "") if is_branch and statement.word in ("exit", "return") else None


def _handles(group: ShellNode) -> bool:
    """Whether a group stands behind `||`."""
    outer = group.parent
    if (
        group.kind not in (NodeKind.GROUP, NodeKind.SUBSHELL)
        or outer is None
        or outer.kind is not NodeKind.AND_OR
    ):
        return False
    place = outer.children.index(group)
    return place > 0 and outer.operators[place - 1] == "||"


def _after_condition(
    program: ShellProgram,
    statement: ShellNode,
    condition: ShellNode | None,
    writer: ShellNode | None = None,
) -> tuple[ShellNode, str] | None:
    """The first words of a `then`: the condition has just succeeded."""
    if condition is None or statement.word not in ("exit", "return"):
        return None
    is_test = condition.kind is NodeKind.TEST or (
        condition.kind is NodeKind.COMMAND and condition.word == "test"
    )
    if is_test and _COMPARED.search(program.of_node(condition)):
        return writer or condition, ""
    return (writer, "") if writer is not None and condition.kind is NodeKind.NEGATION else None
