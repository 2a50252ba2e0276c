# SPDX-License-Identifier: Apache-2.0
"""Pure. Loops that wait for something to be ready: what they ask, how they end, what else they look at."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ci_doctor.lint.shell.shell_node import NodeKind, ShellNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_program import ShellProgram

# A question to a server.
NETWORK: Final = re.compile(
    r"\bcurl\b|\bwget\b|\bnc\s+-|\bncat\b|/dev/tcp/|\bgrpcurl\b|\bgrpc_health_probe\b|\bhttpie?\b\s"
    r"|redis-cli\b[^\n]*\bping|\bpg_isready\b|\burlopen\b|requests\.get|\blsof\s+-i|\bss\s+-\w*l|\bnetstat\s+-\w*l"
)
# A question to a log or a file that a server writes.
_FILE: Final = re.compile(r"\bgrep\b[^\n|]*(?:log|out)\b|\[\[?\s+(?:!\s+)?-[efs]\s")
# A look at whether what was started is still there.
LIVENESS: Final = re.compile(
    r"\bkill\s+-(?:0|s\s+0)\b|/proc/\$|\bps\s+(?:-[a-z]*\s+)*(?:-?p\b|--pid|-[a-z]*p\b|aux|-ef|-e\b)|\bpgrep\b|\bpidof\b|\bjobs\b"
    r"|\bwait\s+-[np]|\bdocker\s+(?:container\s+)?(?:ps|inspect|logs|top)\b|\bpodman\s+(?:ps|inspect)\b|\bsqueue\b|\bsacct\b|\bscontrol\b"
    r"|\bkubectl\b|\bsystemctl\b|\btmux\s+(?:has|ls|list)|--pid\b|\bis_?running\b|alive|\bscreen\s+-ls|/proc/"
)
_SLEEPS: Final = re.compile(r"\bsleep\b")
_CLOCK: Final = re.compile(
    r"\bdate\s+['\"]?\+|\$\{?(?:SECONDS|EPOCHSECONDS|EPOCHREALTIME)\b|\bSECONDS\b"
)
_COUNTER: Final = re.compile(
    r"\b(\w+)=\$\(\(\s*\$?\{?\1\}?\s*[-+]|\(\(\s*(?:[-+]{2})?(\w+)\s*(?:\+\+|--|[-+]=)"
    r"|\blet\s+[\"']?(\w+)(?:\+\+|--|[-+]=)|\b(\w+)=(?:`|\$\()expr"
)


class WaitLoop(Struct, frozen=True, kw_only=True):
    """A loop that asks again and again with pauses.

    probe: its commands that ask, in the order of the text. looks_at_process: it would notice that
    what it waits for is gone. has_clock: it compares times. is_limited: something around it ends it
    after a time, such as `timeout 60 bash -c '…'`.
    """

    node: ShellNode
    probes: tuple[ShellNode, ...]
    asks_network: bool
    looks_at_process: bool
    has_clock: bool
    counters: frozenset[str]


def wait_loops(program: ShellProgram) -> tuple[WaitLoop, ...]:
    """The wait loops of `program`; of nested ones, the innermost with the pause."""
    return program.once(_all_loops)


def _all_loops(program: ShellProgram) -> tuple[WaitLoop, ...]:
    return tuple(_loops(program)) if "sleep" in program.text else ()


def _loops(program: ShellProgram) -> Iterator[WaitLoop]:
    for node in program.of(NodeKind.LOOP):
        if node.end - node.start > 8000:
            continue
        text = without_comments(program.of_node(node))
        if not _SLEEPS.search(text):
            continue
        asks_network = bool(NETWORK.search(text))
        if not asks_network and not _FILE.search(text):
            continue
        body = node.children[-1] if node.children else node
        if any(
            child.kind is NodeKind.LOOP and _SLEEPS.search(program.of_node(child))
            for child in node.own()
        ):
            continue
        if not (_sleeps_itself(program, body)):
            continue
        yield WaitLoop(
            node=node,
            probes=tuple(
                each
                for each in node.own()
                if each.kind is NodeKind.COMMAND
                and each.word
                and program.words(each).name in _PROBES
            ),
            asks_network=asks_network,
            looks_at_process=bool(LIVENESS.search(text)),
            has_clock=bool(_CLOCK.search(text)),
            counters=_counters(text),
        )


def _counters(text: str) -> frozenset[str]:
    """The variables that are counted up or down."""
    names: set[str] = set()
    for match in _COUNTER.finditer(text):
        names.update(name for name in match.groups() if name)
    return frozenset(names)


_PROBES: Final = frozenset(
    {"curl", "wget", "nc", "ncat", "grep", "grpcurl", "pg_isready", "redis-cli"}
)


def _sleeps_itself(program: ShellProgram, body: ShellNode) -> bool:
    return any(
        each.kind is NodeKind.COMMAND and each.word and program.words(each).name == "sleep"
        for each in body.own()
    )


def without_comments(text: str) -> str:
    """`text` without lines that are comments, and without comments after a blank."""
    return re.sub(r"(?m)(?:^|[ \t])#[^\n]*", "", text) if "#" in text else text


def waits_until_ready(program: ShellProgram, loop: WaitLoop) -> bool:
    """Whether the loop ends because a probe succeeds: by its condition, or by leaving its body under one."""
    node = loop.node
    conditions = [each for each in node.children if each.is_condition]
    asked = " ".join(program.of_node(each) for each in conditions)
    if node.word in ("while", "until") and NETWORK.search(asked):
        # `while curl …` without a negation waits until the server is gone.
        is_negated = asked.startswith("!") or bool(_NEGATION.search(asked))
        return node.word == "until" or is_negated
    return any(leaves_on_success(program, each) for each in node.own())


def leaves_on_success(program: ShellProgram, node: ShellNode) -> bool:
    """Whether `node` is an if, or an and-or, that asks and then leaves the loop or the function with success."""
    if node.kind is NodeKind.IF:
        asked = " ".join(program.of_node(each) for each in node.children if each.is_condition)
        then = [
            each
            for each in node.children
            if not each.is_condition and each.kind not in (NodeKind.ELIF, NodeKind.ELSE)
        ]
        return any(_leaves(program, each) for each in then) and not is_negative(asked)
    if node.kind is NodeKind.AND_OR and "&&" in node.operators:
        return any(_leaves(program, each) for each in node.children)
    return False


def is_negative(condition: str) -> bool:
    """Whether a condition asks if something failed, or if the time is over."""
    plain = _REDIRECTION.sub("", condition)
    return plain.lstrip().startswith("!") or bool(_OVER.search(plain))


_NEGATION: Final = re.compile(r"!=|\[\[?\s*!|-ne|-z")
_REDIRECTION: Final = re.compile(r"[&\d]?>>?\s*(?:&\d|[^\s>]+)")
_OVER: Final = re.compile(r"-g[te]\s|-l[te]\s|>|\bkill\b")


def _leaves(program: ShellProgram, node: ShellNode) -> bool:
    return any(
        each.kind is NodeKind.COMMAND
        and (each.word == "break" or program.of_node(each) in ("return", "return 0", "exit 0"))
        for each in (node, *node.own())
    )
