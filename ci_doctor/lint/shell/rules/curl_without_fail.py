# SPDX-License-Identifier: Apache-2.0
"""Pure. Readiness by `curl` that takes any answer for success."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.shell_node import NodeKind
from ci_doctor.lint.shell.shell_violation import script, violation
from ci_doctor.lint.shell.status_use import StatusUse, use_of
from ci_doctor.lint.shell.waiting_curls import option_edits, waiting_curls
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_node import ShellNode
    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.violation import Violation

RULE: Final = LintRule(
    rule=Rule(
        id="shell/curl-without-fail",
        severity=Severity.WARNING,
        meaning="Without `-f`, curl succeeds on 404, 502 and 503 as well. A proxy that answers before its server is there counts as ready.",
        remedy='Write `curl -f` and ask a page that answers 200 to GET, such as `/health`, or compare `-w "%{http_code}"` with 200.',
    ),
    bad=(
        script("until curl -s -m 5 localhost:8000/health > /dev/null; do sleep 1; done\n"),
        script("while ! curl --silent -m 5 localhost:8000/v1/models; do\n  sleep 1\ndone\n"),
        script(
            "for i in $(seq 60); do\n  if curl -s -m 5 localhost:8000/health; then break; fi\n  sleep 1\ndone\n[ $i -lt 60 ] || exit 1\n"
        ),
        script(
            "for i in $(seq 60); do\n  curl -so /dev/null -m 5 localhost:8000/health && exit 0\n  sleep 1\ndone\n"
        ),
        script(
            'timeout 60 bash -c "until curl -s localhost:8000/health; do sleep 1; done" || exit 1\n'
        ),
    ),
    good=(
        script("until curl -sf -m 5 localhost:8000/health > /dev/null; do sleep 1; done\n"),
        script("until curl --fail-with-body -m 5 localhost:8000/health; do sleep 1; done\n"),
        script(
            'until [ "$(curl -s -m 5 -o /dev/null -w "%{http_code}" localhost:8000/health)" = 200 ]; do sleep 1; done\n'
        ),
        script("until curl -s -m 5 localhost:8000/health | grep -q ok; do sleep 1; done\n"),
        script("curl -s -m 5 localhost:8000/metrics\n"),
        script(
            "for i in 1 2 3; do\n  if curl -sL -m 60 -o model.zip https://host/model.zip; then break; fi\n  sleep 5\ndone\nunzip model.zip\n"
        ),
    ),
)


def check(program: ShellProgram) -> Iterator[Violation]:
    """`curl` without `-f` whose status decides whether a wait loop goes on."""
    for node, _ in waiting_curls(program):
        words = program.words(node)
        if "f" in words.flags() or words.has("--fail", "--fail-with-body", "--fail-early"):
            continue
        if "http_code" in program.of_node(node) or "telnet:" in program.of_node(node):
            continue
        if use_of(program, node) is not StatusUse.READ or _is_filtered(node):
            continue
        yield violation(
            program,
            RULE,
            node,
            "`curl` without `-f` takes an error page for readiness",
            edits=option_edits(program, node, "-f"),
        )


def _is_filtered(node: ShellNode) -> bool:
    """Whether what it prints decides, not its status."""
    return node.enclosing(NodeKind.SUBSTITUTION) is not None or (
        node.parent is not None and node.parent.kind is NodeKind.PIPELINE
    )
