# SPDX-License-Identifier: Apache-2.0
"""Pure. A status that a pipe hides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.failure_fate import Loss, fates_of
from ci_doctor.lint.shell.judged_files import is_judged_later, named
from ci_doctor.lint.shell.shell_node import NodeKind
from ci_doctor.lint.shell.shell_source import Shell
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
        id="shell/status-lost-in-pipe",
        severity=Severity.WARNING,
        meaning="Without pipefail the status of a pipeline is that of its last command. `tee` succeeds, whatever became of the command before it.",
        remedy="Write `set -o pipefail` before it, or read `${PIPESTATUS[0]}`.",
    ),
    bad=(
        script("pytest tests | tee log\nrc=$?\nexit $rc\n"),
        script("if ! pytest tests 2>&1 | tee log; then\n  exit 1\nfi\n"),
        script("pytest tests | tee log || exit 1\n"),
        script("set -e\npython3 bench.py 2>&1 | tee bench.log\ncat bench.log\n"),
        script("set -ex\nbash run.sh |& tee -a log\necho done\n"),
        script("make test 2>&1 | tee make.log\nif [ $? -ne 0 ]; then exit 1; fi\n"),
        script("set -e\npytest tests | tail -5\n"),
        script("set -e\npython3 compare.py a b 2>&1 | grep -v DEBUG\necho same\n"),
    ),
    good=(
        script("set -o pipefail\npytest tests | tee log\nrc=$?\nexit $rc\n"),
        script("set -euo pipefail\nif ! pytest tests | tee log; then exit 1; fi\n"),
        script("pytest tests | tee log\nrc=${PIPESTATUS[0]}\n"),
        script("set -e\necho hello | tee log\ncat log\n"),
        script("pytest tests | grep -q passed || exit 1\n"),
        script("set -e\npytest tests | tee log\ngrep -q ' passed' log\n"),
    ),
)

_SILENT: Final = frozenset({"tee", "ts", "unbuffer"})
# What these print is a message, and their failure is of no interest.
_MESSAGES: Final = frozenset(
    {
        "echo",
        "printf",
        "date",
        "cat",
        "ls",
        "env",
        "printenv",
        "nvidia-smi",
        "rocm-smi",
        "amd-smi",
        "df",
        "free",
        "uname",
        "head",
        "tail",
        "sed",
        "awk",
        "grep",
        "yes",
        "sort",
        "jq",
        "ps",
        "hostname",
        "pip",
        "find",
        "lscpu",
        "npu-smi",
        "column",
    }
)
_CONTAINERS: Final = frozenset({"docker", "podman", "kubectl", "oc", "journalctl", "git"})
_REPORTS: Final = frozenset(
    {
        "logs",
        "ps",
        "inspect",
        "images",
        "get",
        "describe",
        "top",
        "stats",
        "version",
        "info",
        "-u",
        "status",
        "log",
        "diff",
    }
)


def check(program: ShellProgram) -> Iterator[Violation]:
    """Checks before a filter, and pipelines that end with `tee` whose status something relies on."""
    known: set[int] = set()
    fates = fates_of(program)
    for node, _ in fates.checks():
        fate = fates.fate(node)
        if fate.loss is not Loss.PIPE or fate.by is None or fate.by.parent is None:
            continue
        pipeline = fate.by.parent
        if id(pipeline) in known or is_judged_later(program, node):
            known.add(id(pipeline))
            continue
        known.add(id(pipeline))
        name, last = named(program, node), program.words(fate.by).name
        said = f"`{last}` succeeds whatever becomes of `{name}` before the pipe"
        yield violation(
            program,
            RULE,
            pipeline,
            said,
            remedy=_remedy(program, name),
            severity=Severity.ERROR,
        )
    if "tee" in program.text or "ts" in program.text:
        yield from _to_tee(program, known)


def _remedy(program: ShellProgram, name: str) -> str:
    if program.source.shell is Shell.SH:
        return f"`{name} > log; rc=$?; cat log; exit $rc`: sh has no pipefail"
    return f"Write `set -o pipefail` before `{name}`"


def _to_tee(program: ShellProgram, known: set[int]) -> Iterator[Violation]:
    for node in program.of(NodeKind.PIPELINE):
        if id(node) in known or not _hides(program, node):
            continue
        use = use_of(program, node)
        if use is StatusUse.ENDS:
            said = f"A failure of `{named(program, node.children[0])}` does not end the script, in spite of errexit"
            yield violation(program, RULE, node, said)
        elif use is StatusUse.READ and _reads(program, node):
            name = program.words(node.children[-1]).name
            said = f"What reads this status reads that of `{name}`, which is 0"
            severity = None if _is_before_and(node) else Severity.ERROR
            yield violation(program, RULE, node, said, severity=severity)
        elif use is StatusUse.READ and program.source.embedded and node.parent is program.root:
            whole = program.source.embedded.removeprefix("the ")
            said = f"The {whole} ends with the status of `tee`, which is 0"
            yield violation(program, RULE, node, said, severity=Severity.ERROR)


def _hides(program: ShellProgram, node: ShellNode) -> bool:
    """Whether it ends with `tee` and pipefail is off, and what stands before `tee` matters."""
    last, first = node.children[-1], node.children[0]
    if last.kind is not NodeKind.COMMAND or program.words(last).name not in _SILENT:
        return False
    if len(node.children) < 2 or _is_message(program, first):
        return False
    if any(each.background for each in node.ancestors()):
        return False
    return use_of(program, first) is StatusUse.LOST_IN_PIPE


def _reads(program: ShellProgram, node: ShellNode) -> bool:
    """Whether an operator, a condition or `$?` reads it; the end of the program is another matter."""
    current = node
    for parent in node.ancestors():
        if current.is_condition:
            return True
        if parent.kind is NodeKind.AND_OR and parent.children[-1] is not current:
            index = parent.children.index(current)
            return not _means_nothing(program, parent.children[index + 1])
        if parent.kind not in (NodeKind.AND_OR, NodeKind.NEGATION):
            break
        current = parent
    after = current.next_statement()
    head = program.of_node(after).partition("\n")[0] if after is not None else ""
    return "$?" in head or "${?}" in head


def _is_before_and(node: ShellNode) -> bool:
    """`cmd | tee file && next` goes on after a failure; nothing that handles the failure is lost."""
    parent = node.parent
    if parent is None or parent.kind is not NodeKind.AND_OR or parent.children[-1] is node:
        return False
    return "||" not in parent.operators[parent.children.index(node) :]


def _means_nothing(program: ShellProgram, node: ShellNode) -> bool:
    return program.of_node(node) in ("true", ":")


def _is_message(program: ShellProgram, node: ShellNode) -> bool:
    if node.kind in (NodeKind.GROUP, NodeKind.SUBSHELL):
        return all(_is_message(program, each) for each in node.children)
    if node.kind is NodeKind.NEGATION and node.children:
        return _is_message(program, node.children[0])
    if node.kind is not NodeKind.COMMAND:
        return node.kind in (
            NodeKind.LOOP,
            NodeKind.IF,
            NodeKind.CASE,
            NodeKind.ASSIGNMENT,
            NodeKind.TEST,
        )
    words = program.words(node)
    if words.name in _CONTAINERS:
        return any(each in _REPORTS for each in words.arguments[:3])
    return words.name in _MESSAGES
