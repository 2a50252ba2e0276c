# SPDX-License-Identifier: Apache-2.0
"""Pure. Bounded wait loops after which nothing asks if the wait succeeded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.shell_node import NodeKind
from ci_doctor.lint.shell.shell_violation import script, violation
from ci_doctor.lint.shell.wait_loops import wait_loops, waits_until_ready, without_comments
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_node import ShellNode
    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.violation import Violation

RULE: Final = LintRule(
    rule=Rule(
        id="shell/wait-falls-through",
        severity=Severity.WARNING,
        meaning="A loop waits for readiness a number of times and leaves at the first success. If it never succeeds, the script goes on after it in the same way.",
        remedy="Ask after the loop if the service is ready, and end the script if it is not.",
    ),
    bad=(
        script(
            "vllm serve m &\nfor i in $(seq 60); do\n  if curl -sf -m 5 localhost:8000/health; then\n    break\n  fi\n  sleep 1\ndone\nvllm bench serve\n"
        ),
    ),
    good=(
        script(
            'vllm serve m &\nfor i in $(seq 60); do\n  curl -sf -m 5 localhost:8000/health && break\n  [ "$i" = 60 ] && exit 1\n  sleep 1\ndone\nvllm bench serve\n'
        ),
        script(
            'vllm serve m &\nready=no\nfor i in $(seq 60); do\n  curl -sf -m 5 localhost:8000/health && ready=yes && break\n  sleep 1\ndone\n[ "$ready" = yes ] || exit 1\nvllm bench serve\n'
        ),
        script(
            'vllm serve m &\nfor i in $(seq 60); do\n  curl -sf -m 5 localhost:8000/health && break\n  if [ "$i" = 60 ]; then\n    skip=1\n    break\n  fi\n  sleep 1\ndone\na\nb\nc\nd\nif [ "$skip" != 1 ]; then vllm bench serve; fi\n'
        ),
    ),
)

_FAILS: Final = re.compile(r"\b(?:exit|return)\b|\bfalse\b|\bfail|\bdie\b|\babort")
_FOLLOWERS: Final = 4


def check(program: ShellProgram) -> Iterator[Violation]:
    """Wait loops with a bound that leave by `break`, and no statement after them that asks."""
    for loop in wait_loops(program):
        if not waits_until_ready(program, loop):
            continue
        text = without_comments(program.of_node(loop.node))
        if "break" not in text or _FAILS.search(text) or _is_endless(loop.node, text):
            continue
        after = loop.node.following(_FOLLOWERS)
        if any(_asks(program, each, text) for each in after) or _sets_flag(program, loop.node):
            continue
        if not after and not _ends_function(loop.node):
            continue
        yield violation(
            program,
            RULE,
            loop.node,
            "If the wait never succeeds, the script goes on after this loop",
        )


def _is_endless(node: ShellNode, text: str) -> bool:
    return node.word != "for" and bool(
        re.match(r"(?:while|until)\s+(?:true|:|\[\s*1|false|sleep)", text)
    )


def _ends_function(node: ShellNode) -> bool:
    """Whether it is the last statement of a function: its calls cannot know how it ended."""
    body = node.parent
    return body is not None and body.parent is not None and body.parent.kind is NodeKind.FUNCTION


def _sets_flag(program: ShellProgram, loop: ShellNode) -> bool:
    """Whether the loop sets a variable to a constant, and anything after it reads the variable."""
    flags = re.findall(r"\b(\w+)=[\"']?\w+[\"']?[ \t]*(?:$|[;\n])", program.of_node(loop))
    rest = program.text[loop.end :]
    return any(re.search(rf"\$\{{?{name}\b", rest) for name in flags)


def _asks(program: ShellProgram, node: ShellNode, loop: str) -> bool:
    """Whether a statement looks at the service, at a variable of the loop, or ends by a condition."""
    if node.kind in (NodeKind.IF, NodeKind.TEST, NodeKind.AND_OR, NodeKind.CASE, NodeKind.LOOP):
        return True
    text = program.of_node(node)
    if re.search(r"\b(?:curl|wget|nc|exit|return)\b", text):
        return True
    assigned = set(re.findall(r"\b(\w+)=", loop))
    return any(re.search(rf"\$\{{?{name}\b", text) for name in assigned)
