# SPDX-License-Identifier: Apache-2.0
"""Pure. `$?` after `if ! cmd`, which is always 0."""

from __future__ import annotations

import re
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
    from ci_doctor.lint.violation import Edit, Violation

RULE: Final = LintRule(
    rule=Rule(
        id="shell/status-of-negation",
        severity=Severity.ERROR,
        meaning="In `if ! cmd; then`, `$?` is the status of the negation: 0. The real status is lost, and an `exit $?` there ends with success.",
        remedy="Keep the status first: `cmd || rc=$?`, then compare `rc`.",
    ),
    bad=(
        script("if ! pytest tests; then\n  rc=$?\n  exit $rc\nfi\n"),
        script("if ! make test; then exit $?; fi\n"),
        script('if ! run; then\n  echo "failed with $?"\nfi\n'),
        script("if a; then\n  b\nelif ! c; then\n  status=$?\nfi\n"),
        script("while ! pull; do\n  rc=$?\n  [ $rc = 2 ] && exit 2\n  sleep 1\ndone\n"),
    ),
    good=(
        script('rc=0\npytest tests || rc=$?\nif [ "$rc" -ne 0 ]; then exit $rc; fi\n'),
        script("if ! pytest tests; then\n  echo failed\n  docker logs server\n  exit 1\nfi\n"),
        script("if pytest tests; then\n  rc=$?\nfi\n"),
        script("if ! pytest tests; then\n  show_logs\n  rc=$?\nfi\n"),
    ),
)

_STATUS: Final = re.compile(r"\$\?|\$\{\?\}")


def check(program: ShellProgram) -> Iterator[Violation]:
    """First statements after a negated condition that read `$?`."""
    if "$?" not in program.text:
        return
    for node in program.of(NodeKind.IF, NodeKind.ELIF, NodeKind.LOOP):
        conditions = [each for each in node.children if each.is_condition]
        if not conditions or not _is_negated(conditions[-1]):
            continue
        first = _first_statement(node)
        if first is None or not _STATUS.search(_head(program, first)):
            continue
        yield violation(
            program,
            RULE,
            first,
            "`$?` is 0 here: it is the status of `!`, not of the command",
            edits=_repair(program, node, conditions, first),
        )


def _is_negated(condition: ShellNode) -> bool:
    if condition.kind is NodeKind.PIPELINE:
        condition = condition.children[0]
    return condition.kind is NodeKind.NEGATION


def _head(program: ShellProgram, node: ShellNode) -> str:
    """The part of a statement that reads `$?` before anything else has run."""
    text = program.of_node(node)
    if node.kind in (NodeKind.COMMAND, NodeKind.ASSIGNMENT, NodeKind.DECLARATION, NodeKind.TEST):
        return re.sub(r"(?s)'[^']*'|\$\((?!\().*", "", text)
    if node.kind in (NodeKind.IF, NodeKind.CASE, NodeKind.AND_OR):
        return re.split(r"\n|;|&&|\|\|", text, maxsplit=1)[0]
    return ""


def _first_statement(node: ShellNode) -> ShellNode | None:
    rest = [each for each in node.children if not each.is_condition]
    if rest and rest[0].kind is NodeKind.DO:
        rest = rest[0].children
    return rest[0] if rest and rest[0].kind not in (NodeKind.ELIF, NodeKind.ELSE) else None


def _repair(
    program: ShellProgram, node: ShellNode, conditions: list[ShellNode], first: ShellNode
) -> tuple[Edit, ...]:
    """`if ! cmd; then rc=$?; …; exit $rc; fi` becomes `if cmd; then :; else rc=$?; …; exit $rc; fi`.

    Only where the status leaves by that `exit` alone: then a failure that was hidden becomes red,
    and nothing else changes.
    """
    body = [each for each in node.children if not each.is_condition]
    is_plain = node.kind is NodeKind.IF and len(conditions) == 1
    if not is_plain or any(each.kind in (NodeKind.ELIF, NodeKind.ELSE) for each in body):
        return ()
    if conditions[0].kind is not NodeKind.NEGATION or "trap" in program.by_name:
        return ()
    if any(
        each.kind not in (NodeKind.PROGRAM, NodeKind.IF, NodeKind.ELSE) for each in node.ancestors()
    ):
        return ()
    if not _leaves_by_exit(program, body, first):
        return ()
    mark = re.compile(r"!\s+").match(program.text, conditions[0].start)
    between = program.text[conditions[0].end : first.start]
    place = re.fullmatch(r"(\s*;?\s*then)\s+", between)
    if mark is None or place is None or program.source.embedded is not None:
        return ()
    end = conditions[0].end + len(place[1])
    return program.edits((mark.start(), mark.end(), ""), (end, end, " :; else"))


def _leaves_by_exit(program: ShellProgram, body: list[ShellNode], first: ShellNode) -> bool:
    """Whether the body only says something between `rc=$?` and `exit $rc`; or is `exit $?` alone."""
    texts = [program.of_node(each) for each in body]
    if len(body) == 1:
        return (
            re.fullmatch(r"exit [\"']?\$\??\{?\??\}?[\"']?", texts[0]) is not None
            and _STATUS.search(texts[0]) is not None
        )
    named = re.fullmatch(r"([A-Za-z_]\w*)=\$\?", texts[0])
    if named is None or body[0] is not first:
        return False
    name = re.escape(named[1])
    if re.fullmatch(rf"exit [\"']?\$\{{?{name}\}}?[\"']?", texts[-1]) is None:
        return False
    return all(
        each.kind is NodeKind.COMMAND
        and each.word in ("echo", "printf", "cat", "tail")
        and not re.search(rf"\$\{{?{name}\b|\$\?|\$\(|`", text)
        for each, text in zip(body[1:-1], texts[1:-1], strict=True)
    )
