# SPDX-License-Identifier: Apache-2.0
"""Pure. Kills by name, which also reach processes of others."""

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
    from ci_doctor.lint.violation import Violation

RULE: Final = LintRule(
    rule=Rule(
        id="shell/broad-kill",
        severity=Severity.NOTE,
        meaning="A kill by name ends each process that matches, those of another job on the same machine as well.",
        remedy="Keep the process id when the process is started (`pid=$!`), and kill that one, or its group.",
    ),
    bad=(
        script('pkill -f "vllm serve"\n'),
        script("killall -9 python3\n"),
        script("kill -9 $(pgrep -f vllm)\n"),
        script("pgrep -f vllm | xargs kill\n"),
        script('ps aux | grep vllm | awk "{print \\$2}" | xargs -r kill -9\n'),
        script("fuser -k 8000/tcp\n"),
        script("sudo pkill -9 ray || true\n"),
        script("kill `lsof -t -i:8000`\n"),
    ),
    good=(
        script('kill "$pid"\n'),
        script("pkill -P $$\n"),
        script("pkill -F server.pid\n"),
        script('kill -- -"$pid"\n'),
        script("pgrep -f vllm\n"),
    ),
)

_LISTS: Final = re.compile(r"\b(?:pgrep|pidof|lsof|fuser|ps)\b")


def check(program: ShellProgram) -> Iterator[Violation]:
    """pkill, killall, fuser -k, and kill with ids that a search by name gives."""
    for node in program.commands:
        what = _broad(program, node)
        if what:
            yield violation(
                program, RULE, node, f"`{what}` also ends processes that this script did not start"
            )


def _broad(program: ShellProgram, node: ShellNode) -> str:
    words = program.words(node)
    if words.name == "pkill":
        own = words.has("-P", "--parent", "-F", "--pidfile", "-s", "-g", "-0")
        return "" if own else "pkill"
    if words.name == "killall":
        return "" if words.has("-0") else "killall"
    if words.name == "fuser":
        return "fuser -k" if "k" in words.flags() else ""
    if words.name == "kill":
        match = _LISTS.search(" ".join(words.arguments))
        return f"kill $({match[0]} …)" if match and not words.has("-0") else ""
    parent = node.parent
    if words.name == "xargs" and parent is not None and parent.kind is NodeKind.PIPELINE:
        kills = any(re.search(r"\bkill\b", each) for each in words.arguments)
        match = _LISTS.search(program.of_node(parent))
        return f"{match[0]} … | xargs kill" if kills and match else ""
    return ""
