# SPDX-License-Identifier: Apache-2.0
"""Pure. `curl` in a wait loop that may never come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.shell_violation import script, violation
from ci_doctor.lint.shell.waiting_curls import is_limited, option_edits, waiting_curls
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.violation import Violation

RULE: Final = LintRule(
    rule=Rule(
        id="shell/curl-without-time-limit",
        severity=Severity.WARNING,
        meaning="curl has no time limit of its own. A server that accepts the connection and hangs keeps the loop in its first round, and the limit of the loop never counts.",
        remedy="Write `curl --max-time 5` in loops that wait.",
    ),
    bad=(
        script("until curl -sf localhost:8000/health; do sleep 1; done\n"),
        script(
            "for i in $(seq 60); do\n  if curl -sf localhost:8000/health > /dev/null 2>&1; then break; fi\n  sleep 1\ndone\n[ $i -lt 60 ] || exit 1\n"
        ),
        script(
            'until [ "$(curl -s -o /dev/null -w "%{http_code}" localhost:8000/health)" = 200 ]; do sleep 1; done\n'
        ),
        script("while ! curl -s localhost:8000/v1/models | grep -q m; do sleep 5; done\n"),
        script(
            'for i in $(seq 60); do\n  code=$(curl -s -o /dev/null -w "%{http_code}" localhost:8000/health)\n  [ "$code" = 200 ] && break\n  sleep 1\ndone\n[ "$code" = 200 ] || exit 1\n'
        ),
    ),
    good=(
        script("until curl -sf --max-time 5 localhost:8000/health; do sleep 1; done\n"),
        script("until curl -sfm5 localhost:8000/health; do sleep 1; done\n"),
        script("until timeout 5 curl -sf localhost:8000/health; do sleep 1; done\n"),
        script(
            'timeout 600 bash -c "until curl -sf localhost:8000/health; do sleep 1; done" || exit 1\n'
        ),
        script("curl -sf localhost:8000/metrics\n"),
        script(
            "for i in 1 2 3; do\n  curl -fsSL https://host/tool.tgz | tar xz && break\n  sleep 5\ndone\n"
        ),
    ),
)


def check(program: ShellProgram) -> Iterator[Violation]:
    """`curl` of a wait loop without a limit, unless something limits the loop as a whole."""
    if program.is_limited:
        return
    for node, _ in waiting_curls(program):
        if is_limited(program, node):
            continue
        yield violation(
            program,
            RULE,
            node,
            "`curl` has no time limit here, so a server that hangs stops the wait loop",
            # An answer that takes up to a minute is still one.
            edits=option_edits(program, node, "--max-time 60"),
        )
