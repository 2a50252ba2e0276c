# SPDX-License-Identifier: Apache-2.0
"""Pure. Success that is printed after a barrier whose status nobody reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
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
        id="shell/success-unchecked",
        severity=Severity.WARNING,
        meaning="A message of success is printed whether the barrier before it succeeded or not.",
        remedy="End the script if the barrier fails: `barrier … || exit 1`, then print.",
    ),
    bad=(
        script(
            'python3 sync.py barrier --timeout 1800\necho "Congratulations, all nodes are up"\n'
        ),
        script('eval "$HEALTH_BARRIER_CMD"\necho "all servers are ready"\n'),
        script('python3 wait_for_server.py --port 8000\necho "Server is ready"\n'),
        script('./healthcheck.sh\nprintf "Health check passed\\n"\n'),
        script('python -m tools.wait_for_ready\necho "Cluster ready!"\npytest\n'),
        script('pytest a &\npytest b &\nwait\necho "All tests passed"\n'),
    ),
    good=(
        script('python3 sync.py barrier --timeout 1800 || exit 1\necho "all nodes are up"\n'),
        script('set -e\npython3 sync.py barrier\necho "all nodes are up"\n'),
        script(
            'python3 sync.py barrier\nif [ $? -ne 0 ]; then exit 1; fi\necho "all nodes are up"\n'
        ),
        script('pytest a &\nwait $! || exit 1\necho "All tests passed"\n'),
        script('pytest a &\nwait\necho "All tests are finished"\n'),
        script('python3 build.py\necho "build is ready"\n'),
    ),
)

_BARRIER: Final = re.compile(
    r"(?i)barrier|wait[_-]?(?:for|until)|health[_-]?(?:check|barrier)|check[_-]?health|wait[_-]ready"
)
_SUCCESS: Final = re.compile(
    r"(?i)\b(?:success\w*|congrat\w*|ready|healthy|passed|all (?:\w+ ){0,20}up|is up|are up|complete\w*|finished|done|started)\b"
)
_PASSED: Final = re.compile(r"(?i)\b(?:passed|succe(?:ss|eded)\w*)\b")
_DOUBT: Final = re.compile(r"(?i)fail|error|warn|not |wait|\$\?|time(?:d )?out|if ")


def check(program: ShellProgram) -> Iterator[Violation]:
    """A barrier, ignored, and an `echo` of success as the next statement."""
    for node in program.commands:
        after = node.next_statement()
        if after is None or after.word not in ("echo", "printf", "log", "info"):
            continue
        if not _is_barrier(program, node) and not _is_bare_wait(program, node):
            continue
        said = program.of_node(after)
        if _is_bare_wait(program, node):
            if _PASSED.search(said) and not _DOUBT.search(said):
                yield _report(program, after, node, "`wait` without a process is always 0")
            continue
        if not _SUCCESS.search(said) or _DOUBT.search(said):
            continue
        if use_of(program, node) is StatusUse.IGNORED:
            yield _report(program, after, node, "the barrier before it may have failed")


def _report(program: ShellProgram, said: ShellNode, barrier: ShellNode, why: str) -> Violation:
    what = f"This says success in any case: {why}"
    return violation(program, RULE, said, what, related=(program.place(barrier),))


def _is_bare_wait(program: ShellProgram, node: ShellNode) -> bool:
    """`wait` for all that runs in the background, of which the shell forgets every status."""
    return program.of_node(node).strip() == "wait"


def _is_barrier(program: ShellProgram, node: ShellNode) -> bool:
    """Programs and strings alone: a function's body says whether it can fail, in shell/unchecked-wait."""
    words = program.words(node)
    if words.name in ("echo", "printf", "log") or program.definition(words.name) is not None:
        return False
    asked = " ".join((words.name, *words.arguments[:3]))
    is_program = (
        words.name in ("eval", "bash", "sh")
        or "/" in node.word
        or words.name.startswith("python")
        or "." in words.name
    )
    return is_program and bool(_BARRIER.search(asked))
