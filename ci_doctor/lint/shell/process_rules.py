# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about the processes of a script, its handlers and its own text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule, Place, Violation, excerpt_of
from ci_doctor.lint.shell.shell_program import script, violation
from ci_doctor.model.finding import Rule, Severity
from ci_doctor.syntax.shell_nodes import NodeKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.source_files import ShellSource
    from ci_doctor.syntax.shell_nodes import ShellNode

BROAD_KILL: Final = LintRule(
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


def broad_kill(program: ShellProgram) -> Iterator[Violation]:
    """pkill, killall, fuser -k, and kill with ids that a search by name gives."""
    for node in program.commands:
        what = _broad(program, node)
        if what:
            yield violation(
                program,
                BROAD_KILL,
                node,
                f"`{what}` also ends processes that this script did not start",
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


SYNTAX: Final = LintRule(
    rule=Rule(
        id="shell/syntax",
        severity=Severity.ERROR,
        meaning="Bash cannot read the script. It fails when it comes to this line, or before it runs at all.",
        remedy="Repair the line: `bash -n FILE` says the same.",
    ),
    bad=(
        script("if true; then\n  echo a\n"),
        script("IMAGE=<IMAGE_NAME>:<TAG>\n"),
        script("for i in 1 2; do\n  echo $i\n"),
        script("f() {\n  echo a\n"),
    ),
    good=(
        script("if true; then\n  echo a\nfi\n"),
        script('IMAGE="${1:?image}"\n'),
        script("shopt -s extglob\nrm -- !(keep)\n"),
    ),
)


def syntax_violation(source: ShellSource, line: int, complaint: str) -> Violation:
    """Bash's own words about `line` of the source's text."""
    texts = source.text.split("\n")
    own = min(max(line, 1), len(texts))
    lines = source.lines
    number = own
    if lines is not None:
        number = lines[min(own, len(lines)) - 1] if lines else 1
    return Violation(
        rule=SYNTAX,
        place=Place(file=source.file, line=number, end_line=number),
        summary=f"bash cannot read this: {complaint}",
        excerpt=excerpt_of(texts[own - 1]),
    )


# Handlers of a failure behind a command in the background.


RULES: Final = ((BROAD_KILL, broad_kill),)
