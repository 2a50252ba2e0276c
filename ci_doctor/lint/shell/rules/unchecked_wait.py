# SPDX-License-Identifier: Apache-2.0
"""Pure. Waits for readiness whose failure nobody reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.shell_node import NodeKind
from ci_doctor.lint.shell.shell_violation import script, violation
from ci_doctor.lint.shell.status_use import StatusUse, use_of
from ci_doctor.lint.shell.wait_functions import TEARDOWN, failing_exit, is_direct_wait
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_node import ShellNode
    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.violation import Place, Violation

RULE: Final = LintRule(
    rule=Rule(
        id="shell/unchecked-wait",
        severity=Severity.ERROR,
        meaning="A wait for readiness can fail, and nothing reads its status. The script goes on as if the service were ready, and a later step fails for a reason that is not the cause.",
        remedy="End the script if the wait fails: `wait_for_server || exit 1`, or `set -e` before the call.",
    ),
    bad=(
        script(
            "wait_up() {\n  for i in $(seq 60); do\n    curl -sf -m 5 localhost:8000/health && return 0\n    sleep 1\n  done\n  return 1\n}\nvllm serve m &\nwait_up\nvllm bench serve\n"
        ),
        script(
            'timeout 600 bash -c "until curl -sf -m 5 localhost:8000/health; do sleep 2; done"\npytest tests\n'
        ),
        script(
            "wait_up() {\n  for i in $(seq 60); do\n    curl -sf -m 5 localhost:8000/health && return 0\n    sleep 1\n  done\n  return 1\n}\nstart() {\n  vllm serve m &\n  wait_up || return 1\n}\nstart\npytest tests\n"
        ),
    ),
    good=(
        script(
            "wait_up() {\n  for i in $(seq 60); do\n    curl -sf -m 5 localhost:8000/health && return 0\n    sleep 1\n  done\n  return 1\n}\nvllm serve m &\nwait_up || exit 1\nvllm bench serve\n"
        ),
        script(
            "set -e\nwait_up() {\n  for i in $(seq 60); do\n    curl -sf -m 5 localhost:8000/health && return 0\n    sleep 1\n  done\n  return 1\n}\nvllm serve m &\nwait_up\nvllm bench serve\n"
        ),
        script(
            "wait_up() {\n  for i in $(seq 60); do\n    curl -sf -m 5 localhost:8000/health && return 0\n    sleep 1\n  done\n  exit 1\n}\nvllm serve m &\nwait_up\nvllm bench serve\n"
        ),
        script(
            "wait_up() {\n  for i in $(seq 60); do\n    curl -sf -m 5 localhost:8000/health && return 0\n    sleep 1\n  done\n  return 1\n}\nif ! wait_up; then\n  exit 1\nfi\n"
        ),
    ),
)


def check(program: ShellProgram) -> Iterator[Violation]:
    """Calls of functions, and commands, that wait and whose status is ignored."""
    for node in program.commands:
        name = node.word
        is_direct = is_direct_wait(program, node)
        failing = None if is_direct else failing_exit(program, name)
        if not (is_direct or failing) or use_of(program, node) is not StatusUse.IGNORED:
            continue
        if _tears_down(program, node) or _is_on_purpose(program, node):
            continue
        if failing is None:
            what = f"The wait of `{program.words(node).name}` can fail"
            related: tuple[Place, ...] = ()
        else:
            library, place = failing
            at = library.place(place)
            related = (at,)
            what = f"`{name}` can return a failure ({library.source.file}:{at.line})"
        yield violation(
            program,
            RULE,
            node,
            f"{what}, nothing reads it, and errexit is off",
            related=related,
            severity=Severity.WARNING if is_direct else None,
        )


def _is_on_purpose(program: ShellProgram, node: ShellNode) -> bool:
    """Whether it stands between `set +e` and `set -e`."""
    before, after = node.preceding(1), node.next_statement()
    if not before or after is None:
        return False
    return bool(
        re.match(r"set\s+\+e", program.of_node(before[0]))
        and re.match(r"set\s+-e", program.of_node(after))
    )


def _tears_down(program: ShellProgram, node: ShellNode) -> bool:
    """Whether it waits for an end, not for a start: in a cleanup a failure is expected."""
    names = [node.word, *(each.word for each in node.ancestors() if each.kind is NodeKind.FUNCTION)]
    text = program.of_node(node)
    return any(TEARDOWN.search(name) for name in names) or bool(re.search(r"delete|terminat", text))
