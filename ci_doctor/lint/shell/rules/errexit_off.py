# SPDX-License-Identifier: Apache-2.0
"""Pure. Several commands under an operator or a condition, where errexit is off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.checking_commands import ASKING, always_succeeds, is_check, is_quiet
from ci_doctor.lint.shell.failure_fate import Loss, fates_of
from ci_doctor.lint.shell.judged_files import named
from ci_doctor.lint.shell.shell_node import NodeKind, ShellNode
from ci_doctor.lint.shell.shell_violation import script, violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.violation import Violation

RULE: Final = LintRule(
    rule=Rule(
        id="shell/errexit-off",
        severity=Severity.WARNING,
        meaning="Bash switches errexit off in all that stands before `||` or `&&`, after `!`, and in the condition of `if` or `while`, functions included. Of several commands there only the last one's status counts.",
        remedy="Write `|| return 1` after each command of the function, or call it as a statement of its own.",
    ),
    bad=(
        script(
            "set -e\nbuild_and_test() {\n  make wheel\n  pytest tests\n}\nbuild_and_test || exit 1\n"
        ),
        script(
            "set -e\nrun() {\n  pytest tests\n  docker stop server\n}\nif run; then\n  echo passed\nelse\n  exit 1\nfi\n"
        ),
        script("set -e\nrun() {\n  pip install -e .\n  pytest tests\n}\nrun && echo passed\n"),
        script("set -e\n( cd app; pytest tests; rm -rf out ) || exit 1\n"),
        script("set -e\nif ! { make wheel; pytest tests; }; then\n  exit 1\nfi\n"),
    ),
    good=(
        script(
            "set -e\nbuild_and_test() {\n  make wheel || return 1\n  pytest tests\n}\nbuild_and_test || exit 1\n"
        ),
        script(
            "set -e\nbuild_and_test() {\n  make wheel && pytest tests\n}\nbuild_and_test || exit 1\n"
        ),
        script(
            "set -e\nbuild_and_test() {\n  make wheel\n  pytest tests\n}\nbuild_and_test\necho passed\n"
        ),
        script("set -e\n( cd app && pytest tests ) || exit 1\n"),
        script('set -e\nsay() {\n  echo "begin"\n  pytest tests\n}\nsay || exit 1\n'),
    ),
)


def check(program: ShellProgram) -> Iterator[Violation]:
    """The first command of each such body that matters and is not its last."""
    fates = fates_of(program)
    known: set[int] = set()
    for node in program.commands:
        body = _body(node)
        if body is None or id(body) in known or not _matters(program, node):
            continue
        fate = fates.fate(node)
        if fate.loss is not Loss.IGNORED or fate.exempt is None:
            continue
        known.add(id(body))
        name = named(program, node)
        checks = fates.check_of(node) is not None
        yield violation(
            program,
            RULE,
            node,
            f"errexit is off here, because of line {program.line(fate.exempt.start)}: a failure of `{name}` is lost",
            remedy=f"Write `{name} || return 1`"
            if _function(node)
            else f"Join the commands: `{name} && …`",
            severity=Severity.ERROR if checks else None,
            related=(program.place(fate.exempt),),
        )


def _body(node: ShellNode) -> ShellNode | None:
    return next(
        (
            each
            for each in node.ancestors()
            if each.kind in (NodeKind.FUNCTION, NodeKind.SUBSHELL, NodeKind.GROUP)
        ),
        None,
    )


def _function(node: ShellNode) -> bool:
    return node.enclosing(NodeKind.SUBSHELL) is not None and any(
        each.kind is NodeKind.FUNCTION for each in node.ancestors()
    )


def _matters(program: ShellProgram, node: ShellNode) -> bool:
    """A check, or a program that does something: not a message, and no function that is not known to."""
    if is_check(program, node):
        return True
    if node.word in program.functions:
        return fates_of(program).check_of(node) is not None
    return (
        not is_quiet(program, node)
        and not always_succeeds(program, node)
        and program.words(node).name in _WORKS
        and not ASKING.intersection(program.words(node).arguments)
    )


_WORKS: Final = frozenset(
    [
        "make",
        "gmake",
        "ninja",
        "npm",
        "yarn",
        "pnpm",
        "cargo",
        "go",
        "bazel",
        "gradle",
        "mvn",
        "pip",
        "pip3",
        "uv",
        "poetry",
        "python",
        "python3",
        "cmake",
        "docker",
        "podman",
        "curl",
        "wget",
        "git",
        "bash",
        "sh",
        "apt-get",
        "apt",
        "dnf",
        "yum",
        "helm",
        "terraform",
        "kubectl",
        "rsync",
        "scp",
        "tar",
        "unzip",
        "twine",
        "torchrun",
    ]
)
