# SPDX-License-Identifier: Apache-2.0
"""Pure. Counts of failures that are 0 if they cannot be read."""

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
        id="shell/count-defaults-to-zero",
        severity=Severity.WARNING,
        meaning="A number of failures is read from a text, and is 0 if the text does not have it. If the tool crashed before it wrote the number, the check passes.",
        remedy='End with a failure if the number is missing: `n=$(…) || exit 1`, `[ -n "$n" ] || exit 1`.',
    ),
    bad=(
        script(
            'failed=$(grep -oP "\\d+(?= failed)" log || echo 0)\n[ "$failed" -gt 0 ] && exit 1\n'
        ),
        script(
            'FAILURES=$(jq .failed out.json 2>/dev/null || echo "0")\nif [ "$FAILURES" -ne 0 ]; then exit 1; fi\n'
        ),
        script(
            'errors=$(grep -oE "errors: [0-9]+" log | awk \'{print $2}\')\nerrors=${errors:-0}\nif [ "$errors" -gt 0 ]; then exit 1; fi\n'
        ),
        script(
            'mismatches=$(sed -n "s/mismatch: //p" log)\nif [ "${mismatches:-0}" -gt 0 ]; then exit 1; fi\n'
        ),
        script('failed=$(python3 -c "print(n)" || echo 0)\nif (( failed > 0 )); then exit 1; fi\n'),
    ),
    good=(
        script(
            'failed=$(grep -oP "\\d+(?= failed)" log) || exit 1\n[ "$failed" -gt 0 ] && exit 1\n'
        ),
        script('cached=$(jq .cached out.json || echo 0)\necho "$cached"\n'),
        script('failed=0\nfailed=$((failed + 1))\n[ "${failed:-0}" -gt 0 ] && exit 1\n'),
        script('errors=$(grep -c ERROR log || true)\n[ "${errors:-0}" -gt 0 ] && exit 1\n'),
    ),
)

_BAD_THINGS: Final = re.compile(
    r"(?i)fail|err(?:or|s|_|$)|mismatch|missing|crash|lost|broken|bad|differ|diverg|regress"
)
_READS: Final = frozenset(
    {
        "grep",
        "egrep",
        "awk",
        "gawk",
        "sed",
        "jq",
        "yq",
        "python",
        "python3",
        "cut",
        "perl",
        "xmllint",
        "rg",
    }
)
_ZERO: Final = re.compile(r"""(?:echo|printf)\s+["']?0["']?\s*""")


def check(program: ShellProgram) -> Iterator[Violation]:
    """Assignments of a number that is read from a text, with 0 if that fails."""
    for node in program.of(NodeKind.ASSIGNMENT, NodeKind.DECLARATION):
        text = program.of_node(node)
        named = re.search(r"\b(\w+)=[\"']?(?:\$\(|`)", text)
        if named is None or not _BAD_THINGS.search(named[1]) or not node.children:
            continue
        substitution = node.children[-1]
        if substitution.kind is not NodeKind.SUBSTITUTION or not substitution.children:
            continue
        inner = substitution.children[-1]
        if not _reads_a_text(program, inner) or not _decides(program, named[1]):
            continue
        if _falls_back(program, inner) or _defaults_later(program, node, named[1]):
            yield violation(
                program,
                RULE,
                node,
                f"`{named[1]}` is 0, which passes, if the number cannot be read",
            )


def _reads_a_text(program: ShellProgram, node: ShellNode) -> bool:
    commands = [each for each in (node, *node.own()) if each.kind is NodeKind.COMMAND and each.word]
    words = [program.words(each) for each in commands]
    counted = any(
        each.name == "wc" or (each.name == "grep" and ("c" in each.flags() or each.has("--count")))
        for each in words
    )
    return not counted and any(each.name in _READS for each in words)


def _falls_back(program: ShellProgram, node: ShellNode) -> bool:
    return (
        node.kind is NodeKind.AND_OR
        and node.operators[-1:] == ["||"]
        and bool(_ZERO.fullmatch(program.of_node(node.children[-1])))
    )


def _defaults_later(program: ShellProgram, node: ShellNode, name: str) -> bool:
    return bool(re.search(rf"\$\{{{name}:-0\}}", program.text[node.end : node.end + 2000]))


def _decides(program: ShellProgram, name: str) -> bool:
    """Whether a test compares the number."""
    used = rf"\$?\{{?{name}(?::-0)?\}}?[\"']?\s*(?:-(?:gt|ne|eq|ge)|>|!=|==|=)\s*[\"']?[0-9]"
    return bool(re.search(used, program.text))
