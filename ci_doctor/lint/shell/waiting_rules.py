# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about loops and commands that wait for a server."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule, Place, Violation, word_set
from ci_doctor.lint.shell.checking_commands import StatusUse, use_of
from ci_doctor.lint.shell.shell_program import ShellProgram, script, violation
from ci_doctor.lint.shell.waits import (
    LIVENESS,
    NETWORK,
    TEARDOWN,
    WaitLoop,
    decides,
    failing_exit,
    is_direct_wait,
    is_limited,
    option_edits,
    wait_loops,
    waiting_curls,
    waits_until_ready,
    without_comments,
)
from ci_doctor.model.outcome import Rule, Severity
from ci_doctor.syntax.shell_nodes import NodeKind, ShellNode

CURL_WITHOUT_FAIL: Final = LintRule(
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


def curl_without_fail(program: ShellProgram) -> Iterator[Violation]:
    """`curl` without `-f` whose status decides whether a wait loop goes on."""
    for node, _ in waiting_curls(program):
        words = program.words(node)
        if "f" in words.flags() or words.has("--fail", "--fail-with-body", "--fail-early"):
            continue
        if "http_code" in program.of_node(node) or "telnet:" in program.of_node(node):
            continue
        # Whether what it prints decides, not its status.
        if use_of(program, node) is not StatusUse.READ or (
            node.enclosing(NodeKind.SUBSTITUTION) is not None
            or (node.parent is not None and node.parent.kind is NodeKind.PIPELINE)
        ):
            continue
        yield violation(
            program,
            CURL_WITHOUT_FAIL,
            node,
            "`curl` without `-f` takes an error page for readiness",
            edits=option_edits(program, node, "-f"),
        )


# `curl` in a wait loop that may never come back.

CURL_WITHOUT_TIME_LIMIT: Final = LintRule(
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


def curl_without_time_limit(program: ShellProgram) -> Iterator[Violation]:
    """`curl` of a wait loop without a limit, unless something limits the loop as a whole."""
    if program.is_limited:
        return
    for node, _ in waiting_curls(program):
        if is_limited(program, node):
            continue
        yield violation(
            program,
            CURL_WITHOUT_TIME_LIMIT,
            node,
            "`curl` has no time limit here, so a server that hangs stops the wait loop",
            # An answer that takes up to a minute is still one.
            edits=option_edits(program, node, "--max-time 60"),
        )


# A fixed sleep in place of a wait for readiness.

FIXED_SLEEP: Final = LintRule(
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


def fixed_sleep(program: ShellProgram) -> Iterator[Violation]:
    """`sleep N` after the start of a server in the same sequence, with no look at it next."""
    for node in program.by_name.get("sleep", []):
        words = program.words(node).arguments
        if (
            not words
            or not re.fullmatch(r"\$?\{?\w+\}?[smh]?", words[0])
            or (words[0] in ("0", "1", "0s", "1s"))
        ):
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
            FIXED_SLEEP,
            node,
            f"The server of line {program.line(start.start)} has a sleep of {words[0]} to start, and nothing asks if it has",
            related=(program.place(start),),
        )


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


# Time-outs that count rounds of a loop whose rounds have no limit.

TIME_IN_ITERATIONS: Final = LintRule(
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


def time_in_iterations(program: ShellProgram) -> Iterator[Violation]:
    """Wait loops with a counter that is named as a time, and a `curl` without a limit in them."""
    if program.is_limited:
        return
    for loop in wait_loops(program):
        if loop.has_clock or not waits_until_ready(program, loop):
            continue
        # What counts and limits the rounds: the counters, what is compared with them, and
        # the head of a `for`.
        text = without_comments(program.of_node(loop.node))
        head = (
            text.partition("\n")[0].partition("do")[0] if loop.node.word.startswith("for") else ""
        )
        compared = [
            match[0]
            for name in loop.counters
            for match in re.finditer(rf"(?m)^[^\n]*\b{name}\b[^\n]*(?:-[gl][te]|[<>])[^\n]*", text)
        ]
        bound = " ".join([head, *loop.counters, *compared])
        if not _TIME.search(bound):
            continue
        unlimited = [each for each in loop.probes if _is_unlimited(program, each)]
        if unlimited:
            yield violation(
                program,
                TIME_IN_ITERATIONS,
                loop.node,
                f"This counts rounds as seconds, and `{program.words(unlimited[0]).name}` in it has no time limit",
            )


def _is_unlimited(program: ShellProgram, node: ShellNode) -> bool:
    words = program.words(node)
    if words.name == "curl":
        options = any(
            re.match(r"(?i)\$\{?\w*(?:opt|arg|flag|curl|timeout)", each) for each in words.arguments
        )
        return not options and not is_limited(program, node)
    return words.name == "wget" and not words.is_limited and not words.has("--timeout", "-T")


# Waits for readiness whose failure nobody reads.

UNCHECKED_WAIT: Final = LintRule(
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


def unchecked_wait(program: ShellProgram) -> Iterator[Violation]:
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
            UNCHECKED_WAIT,
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


# Bounded wait loops after which nothing asks if the wait succeeded.

WAIT_FALLS_THROUGH: Final = LintRule(
    rule=Rule(
        id="shell/wait-falls-through",
        severity=Severity.WARNING,
        meaning="A loop waits for readiness a number of times and leaves at the first success. If it never succeeds, the script goes on after it in the same way.",
        remedy="Ask after the loop if the service is ready, and end the script if it is not.",
    ),
    bad=(
        script(
            "vllm serve m &\nfor i in $(seq 60); do\n  if curl -sf -m 5 localhost:8000/health; then\n    break\n  fi\n  sleep 1\ndone\nvllm bench serve\n"
        ),
    ),
    good=(
        script(
            'vllm serve m &\nfor i in $(seq 60); do\n  curl -sf -m 5 localhost:8000/health && break\n  [ "$i" = 60 ] && exit 1\n  sleep 1\ndone\nvllm bench serve\n'
        ),
        script(
            'vllm serve m &\nready=no\nfor i in $(seq 60); do\n  curl -sf -m 5 localhost:8000/health && ready=yes && break\n  sleep 1\ndone\n[ "$ready" = yes ] || exit 1\nvllm bench serve\n'
        ),
        script(
            'vllm serve m &\nfor i in $(seq 60); do\n  curl -sf -m 5 localhost:8000/health && break\n  if [ "$i" = 60 ]; then\n    skip=1\n    break\n  fi\n  sleep 1\ndone\na\nb\nc\nd\nif [ "$skip" != 1 ]; then vllm bench serve; fi\n'
        ),
    ),
)

_FAILS: Final = re.compile(r"\b(?:exit|return)\b|\bfalse\b|\bfail|\bdie\b|\babort")
_FOLLOWERS: Final = 4


def wait_falls_through(program: ShellProgram) -> Iterator[Violation]:
    """Wait loops with a bound that leave by `break`, and no statement after them that asks."""
    for loop in wait_loops(program):
        if not waits_until_ready(program, loop):
            continue
        text = without_comments(program.of_node(loop.node))
        if (
            "break" not in text
            or _FAILS.search(text)
            or (
                loop.node.word != "for"
                and bool(re.match(r"(?:while|until)\s+(?:true|:|\[\s*1|false|sleep)", text))
            )
        ):
            continue
        after = loop.node.following(_FOLLOWERS)
        if any(_asks(program, each, text) for each in after) or _sets_flag(program, loop.node):
            continue
        if not after and not _ends_function(loop.node):
            continue
        yield violation(
            program,
            WAIT_FALLS_THROUGH,
            loop.node,
            "If the wait never succeeds, the script goes on after this loop",
        )


def _ends_function(node: ShellNode) -> bool:
    """Whether it is the last statement of a function: its calls cannot know how it ended."""
    body = node.parent
    return body is not None and body.parent is not None and body.parent.kind is NodeKind.FUNCTION


def _sets_flag(program: ShellProgram, loop: ShellNode) -> bool:
    """Whether the loop sets a variable to a constant, and anything after it reads the variable."""
    flags = re.findall(r"\b(\w+)=[\"']?\w+[\"']?[ \t]*(?:$|[;\n])", program.of_node(loop))
    rest = program.text[loop.end :]
    return any(re.search(rf"\$\{{?{name}\b", rest) for name in flags)


def _asks(program: ShellProgram, node: ShellNode, loop: str) -> bool:
    """Whether a statement looks at the service, at a variable of the loop, or ends by a condition."""
    if node.kind in (NodeKind.IF, NodeKind.TEST, NodeKind.AND_OR, NodeKind.CASE, NodeKind.LOOP):
        return True
    text = program.of_node(node)
    if re.search(r"\b(?:curl|wget|nc|exit|return)\b", text):
        return True
    assigned = set(re.findall(r"\b(\w+)=", loop))
    return any(re.search(rf"\$\{{?{name}\b", text) for name in assigned)


# Wait loops that never look at the process that they wait for.

WAIT_WITHOUT_PROCESS: Final = LintRule(
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

_NO_SERVER: Final = word_set(
    "sleep tail wait echo nvidia-smi rocm-smi cat curl kill rm read tee top vmstat dmesg"
)


def wait_without_process(program: ShellProgram) -> Iterator[Violation]:
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
    return _is_local(program, loop.node) and not _is_short_loop(program, loop.node)


def _report(program: ShellProgram, node: ShellNode, started: list[ShellNode]) -> Violation:
    function = node.enclosing(NodeKind.FUNCTION)
    calls = program.by_name.get(function.word, ()) if function is not None else ()
    asked = min((each.start for each in calls), default=node.start)
    earlier = [each for each in started if each.start < asked]
    start = program.place((earlier or started)[-1])
    return violation(
        program,
        WAIT_WITHOUT_PROCESS,
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


def _is_short_loop(program: ShellProgram, node: ShellNode) -> bool:
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


RULES: Final = (
    (CURL_WITHOUT_FAIL, curl_without_fail),
    (CURL_WITHOUT_TIME_LIMIT, curl_without_time_limit),
    (FIXED_SLEEP, fixed_sleep),
    (TIME_IN_ITERATIONS, time_in_iterations),
    (UNCHECKED_WAIT, unchecked_wait),
    (WAIT_FALLS_THROUGH, wait_falls_through),
    (WAIT_WITHOUT_PROCESS, wait_without_process),
)
