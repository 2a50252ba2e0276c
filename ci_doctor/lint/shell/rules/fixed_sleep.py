# SPDX-License-Identifier: Apache-2.0
"""Pure. A fixed sleep in place of a wait for readiness."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.shell_node import NodeKind
from ci_doctor.lint.shell.shell_violation import script, violation
from ci_doctor.lint.shell.wait_loops import LIVENESS, without_comments
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_node import ShellNode
    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.violation import Violation

RULE: Final = LintRule(
    rule=Rule(
        id="shell/fixed-sleep",
        severity=Severity.WARNING,
        meaning="A server is started in the background, and the script sleeps a fixed time before it uses it. On a slow machine the time is too short, and on a fast one it is lost.",
        remedy="Ask the server until it answers, with a limit, and look at its process meanwhile.",
    ),
    bad=(
        script("vllm serve m &\nsleep 60\nvllm bench serve\n"),
        script(
            "python3 -m sglang.launch_server --model m > log 2>&1 &\nsleep 30\npython3 client.py\n"
        ),
        script("lmcache server &\nSERVER_PID=$!\nsleep 10\nvllm bench serve\n"),
        script("docker run -d --name s img\nsleep 20\ncurl localhost:8000/v1/models\n"),
        script(
            "nohup python3 proxy_server.py > p.log 2>&1 &\necho started\nsleep 5\npytest tests\n"
        ),
    ),
    good=(
        script('vllm serve m &\npid=$!\nsleep 6\nkill -0 "$pid" || exit 1\nvllm bench serve\n'),
        script(
            "vllm serve m &\nsleep 5\nuntil curl -sf -m 5 localhost:8000/health; do sleep 1; done\n"
        ),
        script("nvidia-smi -l 1 > gpu.log &\nsleep 2\npytest tests\n"),
        script("vllm serve m &\npytest tests\nsleep 5\n"),
        script('kill "$pid"\nsleep 5\nvllm bench serve\n'),
    ),
)

_SERVER: Final = re.compile(
    r"(?i)\bserve\b|server|\brouter|proxy|\bray\s+start|api_server|daemon|redis|etcd\b|gateway|docker\s+run|podman\s+run|dynamo\.|frontend|uvicorn|gunicorn|port-forward"
)
_LOOKS: Final = re.compile(
    r"\bcurl\b[^\n]{0,500}ready|\bif\b[^\n]{0,500}\bgrep\b|\bwait\b|wait_|wait[A-Z]|\buntil\b|\bwhile\b|_ready\b|health|is_alive|Ready"
)
_LONGEST_GAP: Final = 3
_LONGEST_LOOK: Final = 8


def check(program: ShellProgram) -> Iterator[Violation]:
    """`sleep N` after the start of a server in the same sequence, with no look at it next."""
    for node in program.by_name.get("sleep", []):
        words = program.words(node).arguments
        if not words or not re.fullmatch(r"\$?\{?\w+\}?[smh]?", words[0]) or _is_short(words[0]):
            continue
        if node.background or node.parent is None or node.parent.kind is NodeKind.AND_OR:
            continue
        start = _start_before(program, node)
        if start is None:
            continue
        after = node.following(_LONGEST_LOOK)
        if not after or _looks_or_ends(program, after):
            continue
        yield violation(
            program,
            RULE,
            node,
            f"The server of line {program.line(start.start)} has a sleep of {words[0]} to start, and nothing asks if it has",
            related=(program.place(start),),
        )


def _is_short(duration: str) -> bool:
    return duration in ("0", "1", "0s", "1s")


def _start_before(program: ShellProgram, node: ShellNode) -> ShellNode | None:
    for earlier in node.preceding(_LONGEST_GAP):
        text = program.of_node(earlier)
        is_container = bool(
            re.match(r"(?:docker|podman)\s+run\b[^\n]*\s(?:-[a-z]*d[a-z]*|--detach)\s", text)
        )
        if (earlier.background or is_container) and earlier.kind is not NodeKind.LOOP:
            first = re.sub(r"&?\d?>>?\s*\S+", "", text)
            return earlier if _SERVER.search(first) else None
        if earlier.word == "sleep" or LIVENESS.search(text) or _LOOKS.search(text):
            return None
    return None


def _looks_or_ends(program: ShellProgram, after: list[ShellNode]) -> bool:
    for each in after:
        text = without_comments(program.of_node(each))
        if LIVENESS.search(text) or _LOOKS.search(text):
            return True
        if each.background or each.word in ("exit", "return", "kill", "pkill"):
            return True
        if each.kind is not NodeKind.ASSIGNMENT and each.word not in (
            "echo",
            "printf",
            "export",
            "set",
            "cd",
        ):
            return False
    return True
