# SPDX-License-Identifier: Apache-2.0
"""Pure. `grep -c … || echo 0`, which prints two numbers."""

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
        id="shell/count-doubled",
        severity=Severity.ERROR,
        meaning='`grep -c` prints 0 and fails if nothing matches. With `|| echo 0` the variable holds two lines, "0" and "0", and a later comparison fails with "integer expression expected".',
        remedy="Write `n=$(grep -c …) || n=${n:-0}`: grep prints the 0 itself, and nothing if it cannot read the file.",
    ),
    bad=(
        script('n=$(grep -c FAILED log || echo 0)\n[ "$n" -gt 0 ] && exit 1\n'),
        script('local_count=$(cat log | grep -ci error || echo "0")\n'),
        script("f() {\n  local n=$(grep --count x f || echo 0)\n}\n"),
        script("n=`grep -c x f 2>/dev/null || echo 0`\n"),
        script('if [ "$(grep -cE "a|b" f || printf 0)" -gt 0 ]; then exit 1; fi\n'),
    ),
    good=(
        script("n=$(grep -c FAILED log || true)\n"),
        script("n=$(grep -o x f | head -1 || echo 0)\n"),
        script("grep -c x f || echo 0\n"),
        script("n=$(grep -q x f || echo 0)\n"),
    ),
)

_ZERO: Final = re.compile(r"""(?:echo|printf)\s+["']?(?:%d\s+)?0(?:\\n)?["']?\s*""")


def check(program: ShellProgram) -> Iterator[Violation]:
    """And-ors in a command substitution whose left prints a count and whose right prints 0."""
    for node in program.of(NodeKind.AND_OR):
        parent = node.parent
        if parent is None or parent.kind is not NodeKind.SUBSTITUTION or len(node.children) != 2:
            continue
        left, right = node.children
        if node.operators != ["||"] or not _ZERO.fullmatch(program.of_node(right)):
            continue
        counted = left.children[-1] if left.kind is NodeKind.PIPELINE else left
        if counted.kind is not NodeKind.COMMAND or not _counts(program, counted):
            continue
        if _is_cleaned(program, parent):
            continue
        holder = parent.parent.kind if parent.parent is not None else None
        is_kept = holder is NodeKind.TEST or _is_compared(program, parent)
        yield violation(
            program,
            RULE,
            node,
            'This is "0" twice, on two lines, if nothing matches',
            severity=None if is_kept else Severity.WARNING,
        )


def _is_compared(program: ShellProgram, substitution: ShellNode) -> bool:
    """Whether the count goes to a variable that a number is compared with; one that is printed breaks nothing."""
    assignment = substitution.parent
    if assignment is None or assignment.kind not in (NodeKind.ASSIGNMENT, NodeKind.DECLARATION):
        return False
    before = program.text[assignment.start : substitution.start]
    named = re.search(r"\b(\w+)=[\"']?$", before)
    if named is None:
        return False
    name = re.escape(named[1])
    compared = rf"\$\{{?{name}\b[^\n]{{0,4}}\s-(?:gt|ge|lt|le|eq|ne)\s|\(\([^)\n]{{0,99}}\b{name}\b|-(?:gt|ge|lt|le|eq|ne)\s+[\"']?\$\{{?{name}\b"
    return re.search(compared, program.text[substitution.end :]) is not None


def _is_cleaned(program: ShellProgram, substitution: ShellNode) -> bool:
    """Whether the next statement makes one number of it: `n=${n%%[!0-9]*}`."""
    assignment = substitution.parent
    after = assignment.next_statement() if assignment is not None else None
    if assignment is None or after is None:
        return False
    name = program.of_node(assignment).partition("=")[0].split()[-1:]
    text = program.of_node(after)
    return (
        bool(name)
        and re.match(rf"(?:local\s+)?{re.escape(name[0])}=.*\$\{{?{re.escape(name[0])}\b", text)
        is not None
    )


def _counts(program: ShellProgram, node: ShellNode) -> bool:
    words = program.words(node)
    if words.name not in ("grep", "egrep", "fgrep", "zgrep"):
        return False
    return "c" in _letters(words.arguments) or words.has("--count")


def _letters(arguments: tuple[str, ...]) -> str:
    """Letters of short options; those after one that takes a value, as in `-ef`, are its value."""
    return "".join(
        re.split(r"[efmABCD]", each[1:])[0] for each in arguments if re.match(r"-[A-Za-z]", each)
    )
