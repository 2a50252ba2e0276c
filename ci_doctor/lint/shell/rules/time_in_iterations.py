# SPDX-License-Identifier: Apache-2.0
"""Pure. Time-outs that count rounds of a loop whose rounds have no limit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.shell_violation import script, violation
from ci_doctor.lint.shell.wait_loops import (
    WaitLoop,
    wait_loops,
    waits_until_ready,
    without_comments,
)
from ci_doctor.lint.shell.waiting_curls import is_limited
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_node import ShellNode
    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.violation import Violation

RULE: Final = LintRule(
    rule=Rule(
        id="shell/time-in-iterations",
        severity=Severity.WARNING,
        meaning="A time-out is counted in rounds of a loop, as if each took the time of its sleep. The command that asks may take any time itself, so the wait is longer than it says.",
        remedy='Compare times: `deadline=$((SECONDS + 600))`, and `[ "$SECONDS" -lt "$deadline" ]` in the loop.',
    ),
    bad=(
        script(
            "TIMEOUT=600\nelapsed=0\nuntil curl -sf localhost:8000/health; do\n  sleep 5\n  elapsed=$((elapsed + 5))\n  [ $elapsed -ge $TIMEOUT ] && exit 1\ndone\n"
        ),
        script(
            "max_wait=300\nwaited=0\nwhile ! curl -s localhost:8000/health; do\n  if [ $waited -ge $max_wait ]; then exit 1; fi\n  sleep 2\n  ((waited+=2))\ndone\n"
        ),
        script(
            "for i in $(seq $TIMEOUT); do\n  if curl -sf localhost:8000/health; then exit 0; fi\n  sleep 1\ndone\nexit 1\n"
        ),
        script(
            "timeout=180\ncounter=0\nwhile [ $counter -lt $timeout ]; do\n  curl -sf localhost:8000/health && break\n  sleep 1\n  let counter+=1\ndone\n[ $counter -lt $timeout ] || exit 1\n"
        ),
        script(
            "for ((t=0; t<TIMEOUT_SECONDS; t++)); do\n  curl -sf localhost:8000/health && exit 0\n  sleep 1\ndone\nexit 1\n"
        ),
    ),
    good=(
        script(
            "deadline=$((SECONDS + 600))\nuntil curl -sf localhost:8000/health; do\n  [ $SECONDS -ge $deadline ] && exit 1\n  sleep 5\ndone\n"
        ),
        script(
            "elapsed=0\nuntil curl -sf --max-time 2 localhost:8000/health; do\n  sleep 5\n  elapsed=$((elapsed + 5))\n  [ $elapsed -ge $TIMEOUT ] && exit 1\ndone\n"
        ),
        script(
            "for attempt in $(seq 10); do\n  curl -sf localhost:8000/health && exit 0\n  sleep 5\ndone\nexit 1\n"
        ),
    ),
)

_TIME: Final = re.compile(
    r"(?i)time_?out|max_?wait|elapsed|wait(?:ed)?_?(?:time|s\b|sec)|waited|seconds|_secs?\b|deadline|duration"
)


def check(program: ShellProgram) -> Iterator[Violation]:
    """Wait loops with a counter that is named as a time, and a `curl` without a limit in them."""
    if program.is_limited:
        return
    for loop in wait_loops(program):
        if loop.has_clock or not waits_until_ready(program, loop):
            continue
        bound = _bound(program, loop)
        if not _TIME.search(bound):
            continue
        unlimited = [each for each in loop.probes if _is_unlimited(program, each)]
        if unlimited:
            yield violation(
                program,
                RULE,
                loop.node,
                f"This counts rounds as seconds, and `{program.words(unlimited[0]).name}` in it has no time limit",
            )


def _bound(program: ShellProgram, loop: WaitLoop) -> str:
    """What counts and limits the rounds: the counters, what is compared with them, and the head of a `for`."""
    text = without_comments(program.of_node(loop.node))
    head = text.partition("\n")[0].partition("do")[0] if loop.node.word.startswith("for") else ""
    compared = [
        match[0]
        for name in loop.counters
        for match in re.finditer(rf"(?m)^[^\n]*\b{name}\b[^\n]*(?:-[gl][te]|[<>])[^\n]*", text)
    ]
    return " ".join([head, *loop.counters, *compared])


def _is_unlimited(program: ShellProgram, node: ShellNode) -> bool:
    words = program.words(node)
    if words.name == "curl":
        options = any(
            re.match(r"(?i)\$\{?\w*(?:opt|arg|flag|curl|timeout)", each) for each in words.arguments
        )
        return not options and not is_limited(program, node)
    return words.name == "wget" and not words.is_limited and not words.has("--timeout", "-T")
