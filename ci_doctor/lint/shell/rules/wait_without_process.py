# SPDX-License-Identifier: Apache-2.0
"""Pure. Wait loops that never look at the process that they wait for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.shell_node import NodeKind
from ci_doctor.lint.shell.shell_violation import script, violation
from ci_doctor.lint.shell.wait_functions import is_direct_wait
from ci_doctor.lint.shell.wait_loops import LIVENESS, NETWORK, wait_loops, waits_until_ready
from ci_doctor.lint.shell.waiting_curls import decides
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_node import ShellNode
    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.shell.wait_loops import WaitLoop
    from ci_doctor.lint.violation import Violation

RULE: Final = LintRule(
    rule=Rule(
        id="shell/wait-without-process",
        severity=Severity.WARNING,
        meaning="A loop waits for a server that this script has started, and never looks at the process. If the server dies at once, the job still waits until the time is over.",
        remedy='Keep the process id (`pid=$!`) and leave the loop when the process is gone: `kill -0 "$pid" || exit 1`.',
    ),
    bad=(
        script("vllm serve m &\nuntil curl -sf -m 5 localhost:8000/health; do\n  sleep 1\ndone\n"),
        script("docker run -d img\nwhile ! nc -z localhost 8000; do sleep 1; done\n"),
        script(
            "vllm serve m &\nfor i in $(seq 100); do\n  curl -sf -m 5 localhost:8000/health && break\n  sleep 1\ndone\n"
        ),
        script(
            'vllm serve m &\ntimeout 600 bash -c "until curl -sf -m 5 localhost:8000/health; do sleep 2; done" || exit 1\n'
        ),
    ),
    good=(
        script(
            'vllm serve m &\npid=$!\nuntil curl -sf -m 5 localhost:8000/health; do\n  kill -0 "$pid" || exit 1\n  sleep 1\ndone\n'
        ),
        script("until curl -sf -m 5 https://example.org/health; do sleep 1; done\n"),
        script("vllm serve m &\nwhile curl -sf -m 5 localhost:8000/health; do sleep 1; done\n"),
    ),
)

_NO_SERVER: Final = frozenset(
    {
        "sleep",
        "tail",
        "wait",
        "echo",
        "nvidia-smi",
        "rocm-smi",
        "cat",
        "curl",
        "kill",
        "rm",
        "read",
        "tee",
        "top",
        "vmstat",
        "dmesg",
    }
)


def check(program: ShellProgram) -> Iterator[Violation]:
    """Wait loops over the network in a program that starts something in the background."""
    started = [node for node in program.nodes if _starts(program, node)]
    if not started:
        return
    for loop in wait_loops(program):
        is_own = all(loop.node.start <= each.start < loop.node.end for each in started)
        if not is_own and _is_blind(program, loop):
            yield _report(program, loop.node, started)
    for node in program.commands:
        if node.word in ("timeout", "bash", "sh") and is_direct_wait(program, node):
            text = program.of_node(node)
            if not LIVENESS.search(text) and NETWORK.search(text) and _is_local(program, node):
                yield _report(program, node, started)


def _is_blind(program: ShellProgram, loop: WaitLoop) -> bool:
    """Whether it waits for a server of this machine and looks at nothing but its answers."""
    if not loop.asks_network or loop.looks_at_process or not waits_until_ready(program, loop):
        return False
    if loop.probes and not any(decides(program, each) for each in loop.probes):
        return False
    return _is_local(program, loop.node) and not _is_short(program, loop.node)


def _report(program: ShellProgram, node: ShellNode, started: list[ShellNode]) -> Violation:
    function = node.enclosing(NodeKind.FUNCTION)
    calls = program.by_name.get(function.word, ()) if function is not None else ()
    asked = min((each.start for each in calls), default=node.start)
    earlier = [each for each in started if each.start < asked]
    start = program.place((earlier or started)[-1])
    return violation(
        program,
        RULE,
        node,
        f"This waits on and never looks at the process that line {start.line} starts",
        related=(start,),
    )


def _is_local(program: ShellProgram, node: ShellNode) -> bool:
    """Whether it asks this machine: another machine's process cannot be looked at from here."""
    text = program.of_node(node)
    if _LOCAL.search(text):
        return True
    variables = set(re.findall(r"\$\{?(\w+)", text))
    return any(
        re.search(
            rf"\b{name}=[\"']?(?:\$\{{\w+:-)?(?:https?://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0)",
            program.text,
        )
        for name in variables
    )


def _is_short(program: ShellProgram, node: ShellNode) -> bool:
    """`for attempt in 1 2 3` asks whether something still answers."""
    head = re.match(r"for\s+\w+\s+in((?:\s+\d+)+)\s*[;\n]", program.of_node(node))
    return head is not None and len(head[1].split()) <= 10


_LOCAL: Final = re.compile(
    r"localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]|\$\(hostname|\bunix-socket\b"
)


def _starts(program: ShellProgram, node: ShellNode) -> bool:
    if node.kind is NodeKind.COMMAND and node.word in ("docker", "podman"):
        words = program.words(node).arguments
        return "run" in words[:2] and any(
            re.fullmatch(r"-[a-z]*d[a-z]*|--detach", each) for each in words
        )
    if not node.background:
        return False
    if node.kind is NodeKind.COMMAND:
        return bool(node.word) and program.words(node).name not in _NO_SERVER
    return node.kind is not NodeKind.LOOP and not any(
        each.kind is NodeKind.LOOP for each in node.own()
    )
