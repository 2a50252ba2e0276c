# SPDX-License-Identifier: Apache-2.0
"""Pure. Loops and functions that wait for something, and the curls in them."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ci_doctor.lint.shell.checking_commands import StatusUse, use_of
from ci_doctor.syntax.shell_nodes import CommandWords, NodeKind, ShellNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.lint_rule import Edit
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
    loops = program.of(NodeKind.LOOP) if "sleep" in program.text else ()
    read = (_loop(program, node) for node in loops if node.end - node.start <= 8000)
    return tuple(loop for loop in read if loop is not None)


def _loop(program: ShellProgram, node: ShellNode) -> WaitLoop | None:
    """A loop as one that waits; None for one without a pause of its own, or that asks nothing."""
    text = without_comments(program.of_node(node))
    asks_network = bool(NETWORK.search(text))
    if not _SLEEPS.search(text) or not (asks_network or _FILE.search(text)):
        return None
    inside = list(node.own())
    body = node.children[-1] if node.children else node
    pauses = [
        each for each in program.by_name.get("sleep", ()) if body.start <= each.start < body.end
    ]
    inner = [each for each in inside if each.kind is NodeKind.LOOP]
    if not pauses or any(_SLEEPS.search(program.of_node(each)) for each in inner):
        return None
    commands = [each for each in inside if each.kind is NodeKind.COMMAND and each.word]
    return WaitLoop(
        node=node,
        probes=tuple(each for each in commands if program.words(each).name in _PROBES),
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


# Functions that wait and can return a failure: through their own loop, or through another such function.

_DEPTH: Final = 4
# What a loop with pauses is written with, in this order.
_LOOP_WORDS: Final = tuple(map(re.compile, (r"\b(?:until|while)\b", r"\bsleep\b", r"\bdone\b")))
# Names of what waits for an end, not for a start: in a cleanup a failure is expected.
TEARDOWN: Final = re.compile(
    r"(?i)clean|stop|kill|shut|exit|down|free|clear|teardown|finish|drain|term"
)
# Functions that make a service ready, and commands that only say so.
_STARTS: Final = re.compile(r"(?i)wait|start|launch|serv|deploy|setup|ready|health|boot|init|up\b")
_SAYS: Final = frozenset({"echo", "printf", "log", "info", "return", "true", "export"})
_ASKS: Final = re.compile(
    r"\bcurl\b|\bnc\b|\bwget\b|/dev/tcp|\bgrep\b|pg_isready|\bss\b|nvidia-smi"
)


def failing_exit(
    program: ShellProgram, name: str, depth: int = 0
) -> tuple[ShellProgram, ShellNode] | None:
    """Where function `name` returns the failure of a wait, with the program that is in; None if it does not."""
    known = program.definition(name)
    if known is None or depth > _DEPTH:
        return None
    owner, function = known
    answers = owner.once(_failing_exits)
    if name not in answers:
        answers[name] = None  # a function that calls itself
        answers[name] = _failing(owner, function, depth)
    place = answers[name]
    return None if place is None else (owner, place)


def _failing_exits(_program: ShellProgram) -> dict[str, ShellNode | None]:
    """The answers for the functions of one program."""
    return {}


def _failing(program: ShellProgram, function: ShellNode, depth: int) -> ShellNode | None:
    """Where `function` returns the failure of its own wait loop, or of another wait; None if it does not."""
    if any(function.start <= loop.node.start < function.end for loop in wait_loops(program)):
        last = function
        while last.children and last.kind in (NodeKind.FUNCTION, NodeKind.GROUP, NodeKind.SUBSHELL):
            last = last.children[-1]
        is_failure = last.kind is NodeKind.TEST or last.word in ("false", "test")
        return _failing_return(program, function) or (last if is_failure else None)
    for node in function.own():
        if not _is_wait(program, node, function, depth):
            continue
        use = use_of(program, node)
        if use is StatusUse.RETURNED:
            return node
        # `wait_x || return 1`, `if ! wait_x; then return 1; fi`
        reader = node.enclosing(NodeKind.AND_OR, NodeKind.IF)
        if use is StatusUse.READ and reader is not None and reader is not function:
            answer = _failing_return(program, reader)
            if answer is not None and _is_start(function, node):
                return answer
    return None


def _is_wait(program: ShellProgram, node: ShellNode, function: ShellNode, depth: int) -> bool:
    """Whether a command in `function` waits for a start, itself or by another function."""
    if node.kind is not NodeKind.COMMAND or not node.word or TEARDOWN.search(node.word):
        return False
    if is_direct_wait(program, node):
        return True
    return node.word != function.word and failing_exit(program, node.word, depth + 1) is not None


def _is_start(function: ShellNode, wait: ShellNode) -> bool:
    """Whether `function` only starts something: it ends with the wait, or is called so.

    One that goes on to use the service, such as `run_benchmark`, has read the wait's failure itself.
    """
    rest = [each for each in function.children[-1].children if each.start > wait.start]
    return bool(_STARTS.search(function.word)) or all(
        each.word in _SAYS or each.background or each.kind is NodeKind.ASSIGNMENT for each in rest
    )


def _failing_return(program: ShellProgram, around: ShellNode) -> ShellNode | None:
    for node in around.own():
        if node.kind is NodeKind.COMMAND and node.word == "return" and not _in_subshell(node):
            status = program.words(node).arguments[:1]
            if status and status != ("0",):
                return node
    return None


def is_direct_wait(program: ShellProgram, node: ShellNode) -> bool:
    """Whether a command itself waits for something with a time limit, and fails when it is over."""
    words = program.words(node)
    if words.name in ("bash", "sh"):
        if not words.is_limited or "-c" not in words.arguments:
            return False
        script = words.arguments[-1]
        return _has_wait_loop(script) and _ASKS.search(script) is not None
    if words.name in ("kubectl", "oc"):
        return "wait" in words.arguments[:3] or words.arguments[:2] == ("rollout", "status")
    return words.name in (
        "wait-for-it.sh",
        "wait-for-it",
        "wait-for",
        "wait_for_it.sh",
        "dockerize",
    )


def _has_wait_loop(script: str) -> bool:
    """Whether the words of a loop stand in a script that is an argument."""
    end = 0
    for word in _LOOP_WORDS:
        match = word.search(script, end)
        if match is None:
            return False
        end = match.end()
    return True


def _in_subshell(node: ShellNode) -> bool:
    around = node.enclosing(NodeKind.SUBSHELL, NodeKind.SUBSTITUTION)
    return around is not None and around.kind is not NodeKind.FUNCTION


# The `curl` commands of wait loops, and the options that they have.

_OUTPUT: Final = re.compile(r"--output|-[a-zA-Z]*o")
# Options that a variable holds: what they are is unknown.
_OPTIONS: Final = re.compile(r"(?i)\$\{?\w*(?:opt|arg|flag|curl|timeout|extra|auth)\w*")


def waiting_curls(program: ShellProgram) -> Iterator[tuple[ShellNode, WaitLoop]]:
    """Each `curl` of a loop that waits until something is ready, with options that are known."""
    if "curl" not in program.text or program.definition("curl") is not None:
        return
    for loop in wait_loops(program):
        curls = [each for each in loop.probes if program.words(each).name == "curl"]
        if not curls or not waits_until_ready(program, loop):
            continue
        for node in curls:
            words = program.words(node)
            if any(_OPTIONS.match(each) for each in words.arguments):
                continue
            if decides(program, node) and not _downloads(words) and not _unpacks(program, node):
                yield node, loop


def _downloads(words: CommandWords) -> bool:
    """Whether it keeps what it gets as a file, and prints no status: it fetches, it does not ask."""
    if words.has("-w", "--write-out") or "w" in words.flags():
        return False
    if words.has("--remote-name") or "O" in words.flags():
        return True
    pairs = pairwise(words.arguments)
    kept = [value for option, value in pairs if _OUTPUT.fullmatch(option)]
    return any(value not in ("/dev/null", "-") for value in kept)


def _unpacks(program: ShellProgram, node: ShellNode) -> bool:
    """Whether what it prints is an archive or a program: `curl … | tar xz`."""
    pipeline = node.parent
    if pipeline is None or pipeline.kind is not NodeKind.PIPELINE:
        return False
    readers = [each for each in pipeline.children if each is not node and each.word]
    return any(program.words(each).name in _UNPACKERS for each in readers)


_UNPACKERS: Final = frozenset({"tar", "gunzip", "zcat", "unxz", "unzstd", "gpg", "sh", "bash"})


def decides(program: ShellProgram, node: ShellNode) -> bool:
    """Whether its status or what it prints is read at all."""
    if node.enclosing(NodeKind.SUBSTITUTION, NodeKind.TEST) is not None:
        return True
    return use_of(program, node) in (StatusUse.READ, StatusUse.LOST_IN_PIPE)


def is_limited(program: ShellProgram, node: ShellNode) -> bool:
    """Whether a `curl` has a time limit of its own, or `timeout` before it."""
    words = program.words(node)
    return (
        words.is_limited
        or "m" in words.flags()
        or words.has("--max-time", "--connect-timeout", "--speed-time")
    )


def option_edits(program: ShellProgram, node: ShellNode, option: str) -> tuple[Edit, ...]:
    """The edit that puts `option` after the word `curl`; none unless its effect is known.

    Known is it where the command's own status decides whether the loop goes on, and where it asks a
    page that answers 200 to GET at once when a server is ready. `/v1/completions` does neither.
    """
    asks = any(_READINESS.search(each) for each in program.words(node).arguments)
    names = [place for place in node.words if program.text[slice(*place)] == "curl"]
    if not asks or len(names) != 1 or use_of(program, node) is not StatusUse.READ:
        return ()
    if (
        node.enclosing(NodeKind.SUBSTITUTION) is not None
        or node.parent is None
        or node.parent.kind is NodeKind.PIPELINE
    ):
        return ()
    return program.edits((names[0][1], names[0][1], f" {option}"))


_READINESS: Final = re.compile(
    r"/(?:health\w*|health/\w+|v2/health/\w+|ready\w*|live\w*|ping|version|v1/models)/?$"
)
