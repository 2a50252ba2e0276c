# SPDX-License-Identifier: Apache-2.0
"""Pure. A status that `export`, `local`, `readonly` or `declare` hides."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.shell_node import NodeKind
from ci_doctor.lint.shell.shell_violation import script, violation
from ci_doctor.lint.shell.status_use import StatusUse, use_of
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_node import ShellNode
    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.violation import Violation

RULE: Final = LintRule(
    rule=Rule(
        id="shell/status-lost-in-declaration",
        severity=Severity.WARNING,
        meaning="The status of `export X=$(cmd)` is that of `export`: 0. A failure of the command inside is lost, and X is empty.",
        remedy="Write two statements: `X=$(cmd)`, then `export X`.",
    ),
    bad=(
        script("export PORT=$(python3 pick_port.py) || exit 1\n"),
        script(
            "f() {\n  local out=$(curl -sf localhost/x)\n  if [ $? -ne 0 ]; then return 1; fi\n}\n"
        ),
        script('set -e\nexport IMAGE=$(docker build -q .)\ndocker run "$IMAGE"\n'),
        script('set -euo pipefail\nreadonly COMMIT="$(git rev-parse HEAD)"\n'),
        script("if export TOKEN=$(get-token); then run; fi\n"),
        script("f() {\n  declare -r v=$(python3 v.py)\n  rc=$?\n}\n"),
    ),
    good=(
        script("PORT=$(python3 pick_port.py) || exit 1\nexport PORT\n"),
        script("set -e\nexport NOW=$(date +%s)\n"),
        script('export PORT=$(python3 pick_port.py)\necho "$PORT"\n'),
        script("set -e\nexport V=$(cat version || echo 1)\n"),
        script("set -e\nf() {\n  local old=$(shopt -p nullglob)\n}\n"),
        script(
            "f() {\n  local out\n  out=$(curl -sf localhost/x)\n  if [ $? -ne 0 ]; then return 1; fi\n}\n"
        ),
    ),
)

# These hardly fail, or a value without them is of no harm.
_HARMLESS: Final = frozenset(
    {
        "echo",
        "printf",
        "date",
        "pwd",
        "dirname",
        "basename",
        "nproc",
        "whoami",
        "uname",
        "seq",
        "id",
        "hostname",
        "realpath",
        "readlink",
        "cat",
        "tr",
        "cut",
        "sed",
        "awk",
        "wc",
        "head",
        "tail",
        "sort",
        "true",
        "uuidgen",
        "expr",
        "bc",
        "getconf",
        "command",
        "eval",
        "which",
        "arch",
        "dpkg",
        "tput",
        "xargs",
        "mktemp",
        "cd",
        "grep",
        "env",
        "stat",
        "logname",
        "tty",
        "bash",
        "rev",
        "uniq",
        "shopt",
    }
)


def check(program: ShellProgram) -> Iterator[Violation]:
    """Declarations with a command substitution whose failure something relies on."""
    for node in program.of(NodeKind.DECLARATION):
        if (
            node.word not in ("export", "local", "readonly", "declare", "typeset")
            or not node.children
        ):
            continue
        inner = [
            each for each in node.children if each.kind is NodeKind.SUBSTITUTION and each.children
        ]
        if not inner or program.text[inner[0].start] in "<>":
            continue
        use = use_of(program, node)
        if use is StatusUse.READ and _reads(program, node):
            yield violation(
                program,
                RULE,
                node,
                f"What reads this status reads that of `{node.word}`, which is 0",
                severity=Severity.ERROR,
            )
        elif (
            use is StatusUse.ENDS
            and any(_can_fail(program, each) for each in inner)
            and not _is_tested(program, node)
        ):
            yield violation(
                program,
                RULE,
                node,
                f"A failure inside does not end the script, in spite of errexit: the status is that of `{node.word}`",
            )


def _reads(program: ShellProgram, node: ShellNode) -> bool:
    parent = node.parent
    if parent is not None and parent.kind is NodeKind.AND_OR and parent.children[-1] is not node:
        index = parent.children.index(node)
        return parent.operators[index : index + 1] == ["||"] and program.of_node(
            parent.children[index + 1]
        ) not in ("true", ":")
    if node.is_condition or (
        parent is not None and parent.is_condition and parent.kind is NodeKind.NEGATION
    ):
        return True
    after = node.next_statement()
    head = program.of_node(after).partition("\n")[0] if after is not None else ""
    return "$?" in head


def _is_tested(program: ShellProgram, node: ShellNode) -> bool:
    """Whether a test of an empty variable follows, which says the same."""
    named = re.search(r"\b(\w+)=[\"']?\$\(", program.of_node(node))
    after = program.text[node.end : node.end + 400]
    return named is not None and bool(re.search(rf"(?:-[zn]|\[\[?)\s+\"?\$\{{?{named[1]}\b", after))


def _can_fail(program: ShellProgram, substitution: ShellNode) -> bool:
    """Whether its status is that of a program that fails in earnest."""
    last = substitution.children[-1]
    if last.kind is NodeKind.PIPELINE:
        last = last.children[-1]
    if last.kind is NodeKind.AND_OR and "||" in last.operators:
        return False
    if last.kind is not NodeKind.COMMAND or not last.word or "$" in last.word:
        return False
    words = program.words(last)
    name = words.name
    if name == "curl" and "f" not in words.flags() and not words.has("--fail"):
        return False  # the answer is read, not the status
    function = program.definition(name)
    if function is not None:
        return False
    return name not in _HARMLESS
