# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about a status that its own statement hides."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule, Violation, word_set
from ci_doctor.lint.shell.checking_commands import (
    StatusUse,
    is_judged_later,
    is_quiet,
    named,
    use_of,
)
from ci_doctor.lint.shell.failure_fate import Loss, fates_of
from ci_doctor.lint.shell.shell_program import ShellProgram, script, violation
from ci_doctor.lint.source_files import Shell
from ci_doctor.model.outcome import Rule, Severity
from ci_doctor.syntax.shell_nodes import NodeKind, ShellNode

STATUS_LOST_IN_DECLARATION: Final = LintRule(
    rule=Rule(
        id="shell/status-lost-in-declaration",
        severity=Severity.WARNING,
        meaning="The status of `export X=$(cmd)` is that of `export`: 0. A failure of the command inside is lost, and X is empty.",
        remedy="Write two statements: `X=$(cmd)`, then `export X`.",
    ),
    bad=(
        script("export PORT=$(python3 pick_port.py) || exit 1\n"),
        script(
            "f() {\n  local out=$(curl -sf localhost/x)\n  if [ $? -ne 0 ]; then return 1; fi\n}\n"
        ),
        script('set -e\nexport IMAGE=$(docker build -q .)\ndocker run "$IMAGE"\n'),
        script('set -euo pipefail\nreadonly COMMIT="$(git rev-parse HEAD)"\n'),
        script("if export TOKEN=$(get-token); then run; fi\n"),
        script("f() {\n  declare -r v=$(python3 v.py)\n  rc=$?\n}\n"),
    ),
    good=(
        script("PORT=$(python3 pick_port.py) || exit 1\nexport PORT\n"),
        script("set -e\nexport NOW=$(date +%s)\n"),
        script('export PORT=$(python3 pick_port.py)\necho "$PORT"\n'),
        script("set -e\nexport V=$(cat version || echo 1)\n"),
        script("set -e\nf() {\n  local old=$(shopt -p nullglob)\n}\n"),
        script(
            "f() {\n  local out\n  out=$(curl -sf localhost/x)\n  if [ $? -ne 0 ]; then return 1; fi\n}\n"
        ),
    ),
)

# These hardly fail, or a value without them is of no harm.
_HARMLESS: Final = word_set(
    "echo printf date pwd dirname basename nproc whoami uname seq id hostname realpath readlink "
    "cat tr cut sed awk wc head tail sort true uuidgen expr bc getconf command eval which arch "
    "dpkg tput xargs mktemp cd grep env stat logname tty bash rev uniq shopt"
)


def status_lost_in_declaration(program: ShellProgram) -> Iterator[Violation]:
    """Declarations with a command substitution whose failure something relies on."""
    for node in program.of(NodeKind.DECLARATION):
        if (
            node.word not in ("export", "local", "readonly", "declare", "typeset")
            or not node.children
        ):
            continue
        inner = [
            each for each in node.children if each.kind is NodeKind.SUBSTITUTION and each.children
        ]
        if not inner or program.text[inner[0].start] in "<>":
            continue
        use = use_of(program, node)
        if use is StatusUse.READ and _reads_declaration(program, node):
            yield violation(
                program,
                STATUS_LOST_IN_DECLARATION,
                node,
                f"What reads this status reads that of `{node.word}`, which is 0",
                severity=Severity.ERROR,
            )
        elif (
            use is StatusUse.ENDS
            and any(_can_fail(program, each) for each in inner)
            and not _is_tested(program, node)
        ):
            yield violation(
                program,
                STATUS_LOST_IN_DECLARATION,
                node,
                f"A failure inside does not end the script, in spite of errexit: the status is that of `{node.word}`",
            )


def _reads_declaration(program: ShellProgram, node: ShellNode) -> bool:
    parent = node.parent
    if parent is not None and parent.kind is NodeKind.AND_OR and parent.children[-1] is not node:
        index = parent.children.index(node)
        return parent.operators[index : index + 1] == ["||"] and program.of_node(
            parent.children[index + 1]
        ) not in ("true", ":")
    if node.is_condition or (
        parent is not None and parent.is_condition and parent.kind is NodeKind.NEGATION
    ):
        return True
    after = node.next_statement()
    head = program.of_node(after).partition("\n")[0] if after is not None else ""
    return "$?" in head


def _is_tested(program: ShellProgram, node: ShellNode) -> bool:
    """Whether a test of an empty variable follows, which says the same."""
    named = re.search(r"\b(\w+)=[\"']?\$\(", program.of_node(node))
    after = program.text[node.end : node.end + 400]
    return named is not None and bool(re.search(rf"(?:-[zn]|\[\[?)\s+\"?\$\{{?{named[1]}\b", after))


def _can_fail(program: ShellProgram, substitution: ShellNode) -> bool:
    """Whether its status is that of a program that fails in earnest."""
    last = substitution.children[-1]
    if last.kind is NodeKind.PIPELINE:
        last = last.children[-1]
    if last.kind is NodeKind.AND_OR and "||" in last.operators:
        return False
    if last.kind is not NodeKind.COMMAND or not last.word or "$" in last.word:
        return False
    words = program.words(last)
    name = words.name
    if name == "curl" and "f" not in words.flags() and not words.has("--fail"):
        return False  # the answer is read, not the status
    function = program.definition(name)
    if function is not None:
        return False
    return name not in _HARMLESS


# A status that a pipe hides.

STATUS_LOST_IN_PIPE: Final = LintRule(
    rule=Rule(
        id="shell/status-lost-in-pipe",
        severity=Severity.WARNING,
        meaning="Without pipefail the status of a pipeline is that of its last command. `tee` succeeds, whatever became of the command before it.",
        remedy="Write `set -o pipefail` before it, or read `${PIPESTATUS[0]}`.",
    ),
    bad=(
        script("pytest tests | tee log\nrc=$?\nexit $rc\n"),
        script("if ! pytest tests 2>&1 | tee log; then\n  exit 1\nfi\n"),
        script("pytest tests | tee log || exit 1\n"),
        script("set -e\npython3 bench.py 2>&1 | tee bench.log\ncat bench.log\n"),
        script("set -ex\nbash run.sh |& tee -a log\necho done\n"),
        script("make test 2>&1 | tee make.log\nif [ $? -ne 0 ]; then exit 1; fi\n"),
        script("set -e\npytest tests | tail -5\n"),
        script("set -e\npython3 compare.py a b 2>&1 | grep -v DEBUG\necho same\n"),
    ),
    good=(
        script("set -o pipefail\npytest tests | tee log\nrc=$?\nexit $rc\n"),
        script("set -euo pipefail\nif ! pytest tests | tee log; then exit 1; fi\n"),
        script("pytest tests | tee log\nrc=${PIPESTATUS[0]}\n"),
        script("set -e\necho hello | tee log\ncat log\n"),
        script("pytest tests | grep -q passed || exit 1\n"),
        script("set -e\npytest tests | tee log\ngrep -q ' passed' log\n"),
    ),
)

_SILENT: Final = frozenset({"tee", "ts", "unbuffer"})
# What these print is a message as well, and their failure is of no interest.
_SHOWN: Final = word_set("awk column find grep jq npu-smi pip printenv sed sort yes")


def status_lost_in_pipe(program: ShellProgram) -> Iterator[Violation]:
    """Checks before a filter, and pipelines that end with `tee` whose status something relies on."""
    known: set[int] = set()
    fates = fates_of(program)
    for node, _ in fates.checks():
        fate = fates.fate(node)
        if fate.loss is not Loss.PIPE or fate.by is None or fate.by.parent is None:
            continue
        pipeline = fate.by.parent
        if id(pipeline) in known or is_judged_later(program, node):
            known.add(id(pipeline))
            continue
        known.add(id(pipeline))
        name, last = named(program, node), program.words(fate.by).name
        said = f"`{last}` succeeds whatever becomes of `{name}` before the pipe"
        yield violation(
            program,
            STATUS_LOST_IN_PIPE,
            pipeline,
            said,
            remedy=_remedy(program, name),
            severity=Severity.ERROR,
        )
    if "tee" in program.text or "ts" in program.text:
        yield from _to_tee(program, known)


def _remedy(program: ShellProgram, name: str) -> str:
    if program.source.shell is Shell.SH:
        return f"`{name} > log; rc=$?; cat log; exit $rc`: sh has no pipefail"
    return f"Write `set -o pipefail` before `{name}`"


def _to_tee(program: ShellProgram, known: set[int]) -> Iterator[Violation]:
    for node in program.of(NodeKind.PIPELINE):
        if id(node) in known or not _hides(program, node):
            continue
        use = use_of(program, node)
        if use is StatusUse.ENDS:
            said = f"A failure of `{named(program, node.children[0])}` does not end the script, in spite of errexit"
            yield violation(program, STATUS_LOST_IN_PIPE, node, said)
        elif use is StatusUse.READ and _reads_pipe(program, node):
            name = program.words(node.children[-1]).name
            said = f"What reads this status reads that of `{name}`, which is 0"
            severity = None if _is_before_and(node) else Severity.ERROR
            yield violation(program, STATUS_LOST_IN_PIPE, node, said, severity=severity)
        elif use is StatusUse.READ and program.source.embedded and node.parent is program.root:
            whole = program.source.embedded.removeprefix("the ")
            said = f"The {whole} ends with the status of `tee`, which is 0"
            yield violation(program, STATUS_LOST_IN_PIPE, node, said, severity=Severity.ERROR)


def _hides(program: ShellProgram, node: ShellNode) -> bool:
    """Whether it ends with `tee` and pipefail is off, and what stands before `tee` matters."""
    last, first = node.children[-1], node.children[0]
    if last.kind is not NodeKind.COMMAND or program.words(last).name not in _SILENT:
        return False
    if len(node.children) < 2 or not _matters(program, first):
        return False
    if any(each.background for each in node.ancestors()):
        return False
    return use_of(program, first) is StatusUse.LOST_IN_PIPE


def _reads_pipe(program: ShellProgram, node: ShellNode) -> bool:
    """Whether an operator, a condition or `$?` reads it; the end of the program is another matter."""
    current = node
    for parent in node.ancestors():
        if current.is_condition:
            return True
        if parent.kind is NodeKind.AND_OR and parent.children[-1] is not current:
            index = parent.children.index(current)
            return program.of_node(parent.children[index + 1]) not in ("true", ":")
        if parent.kind not in (NodeKind.AND_OR, NodeKind.NEGATION):
            break
        current = parent
    after = current.next_statement()
    head = program.of_node(after).partition("\n")[0] if after is not None else ""
    return "$?" in head or "${?}" in head


def _is_before_and(node: ShellNode) -> bool:
    """`cmd | tee file && next` goes on after a failure; nothing that handles the failure is lost."""
    parent = node.parent
    if parent is None or parent.kind is not NodeKind.AND_OR or parent.children[-1] is node:
        return False
    return "||" not in parent.operators[parent.children.index(node) :]


def _matters(program: ShellProgram, node: ShellNode) -> bool:
    """Whether what a statement writes is more than a message."""
    if node.kind is NodeKind.NEGATION and node.children:
        node = node.children[0]
    if node.kind is NodeKind.COMMAND:
        words = program.words(node)
        is_shown = words.name in _SHOWN or (words.name, *words.arguments[:1]) == ("git", "diff")
        return not is_shown and not is_quiet(program, node)
    return node.kind in (NodeKind.GROUP, NodeKind.SUBSHELL) and any(
        _matters(program, each) for each in node.children
    )


# `$?` after `if ! cmd`, which is always 0.

STATUS_OF_NEGATION: Final = LintRule(
    rule=Rule(
        id="shell/status-of-negation",
        severity=Severity.ERROR,
        meaning="In `if ! cmd; then`, `$?` is the status of the negation: 0. The real status is lost, and an `exit $?` there ends with success.",
        remedy="Keep the status first: `cmd || rc=$?`, then compare `rc`.",
    ),
    bad=(
        script("if ! pytest tests; then\n  rc=$?\n  exit $rc\nfi\n"),
        script("if ! make test; then exit $?; fi\n"),
        script('if ! run; then\n  echo "failed with $?"\nfi\n'),
        script("if a; then\n  b\nelif ! c; then\n  status=$?\nfi\n"),
        script("while ! pull; do\n  rc=$?\n  [ $rc = 2 ] && exit 2\n  sleep 1\ndone\n"),
    ),
    good=(
        script('rc=0\npytest tests || rc=$?\nif [ "$rc" -ne 0 ]; then exit $rc; fi\n'),
        script("if ! pytest tests; then\n  echo failed\n  docker logs server\n  exit 1\nfi\n"),
        script("if pytest tests; then\n  rc=$?\nfi\n"),
        script("if ! pytest tests; then\n  show_logs\n  rc=$?\nfi\n"),
    ),
)

_STATUS: Final = re.compile(r"\$\?|\$\{\?\}")


def status_of_negation(program: ShellProgram) -> Iterator[Violation]:
    """First statements after a negated condition that read `$?`."""
    if "$?" not in program.text:
        return
    for node in program.of(NodeKind.IF, NodeKind.ELIF, NodeKind.LOOP):
        conditions = [each for each in node.children if each.is_condition]
        if not conditions or not _is_negated(conditions[-1]):
            continue
        first = _first_statement(node)
        if first is None or not _STATUS.search(_head(program, first)):
            continue
        yield violation(
            program,
            STATUS_OF_NEGATION,
            first,
            "`$?` is 0 here: it is the status of `!`, not of the command",
        )


def _is_negated(condition: ShellNode) -> bool:
    if condition.kind is NodeKind.PIPELINE:
        condition = condition.children[0]
    return condition.kind is NodeKind.NEGATION


def _head(program: ShellProgram, node: ShellNode) -> str:
    """The part of a statement that reads `$?` before anything else has run."""
    text = program.of_node(node)
    if node.kind in (NodeKind.COMMAND, NodeKind.ASSIGNMENT, NodeKind.DECLARATION, NodeKind.TEST):
        return re.sub(r"(?s)'[^']*'|\$\((?!\().*", "", text)
    if node.kind in (NodeKind.IF, NodeKind.CASE, NodeKind.AND_OR):
        return re.split(r"\n|;|&&|\|\|", text, maxsplit=1)[0]
    return ""


def _first_statement(node: ShellNode) -> ShellNode | None:
    rest = [each for each in node.children if not each.is_condition]
    if rest and rest[0].kind is NodeKind.DO:
        rest = rest[0].children
    return rest[0] if rest and rest[0].kind not in (NodeKind.ELIF, NodeKind.ELSE) else None


# Success that is printed after a barrier whose status nobody reads.

SUCCESS_UNCHECKED: Final = LintRule(
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


def success_unchecked(program: ShellProgram) -> Iterator[Violation]:
    """A barrier, ignored, and an `echo` of success as the next statement."""
    for node in program.commands:
        after = node.next_statement()
        if after is None or after.word not in ("echo", "printf", "log", "info"):
            continue
        said = program.of_node(after)
        if not _SUCCESS.search(said) or _DOUBT.search(said) or not _is_barrier(program, node):
            continue
        if use_of(program, node) is StatusUse.IGNORED:
            yield violation(
                program,
                SUCCESS_UNCHECKED,
                after,
                "This says success in any case: the barrier before it may have failed",
                related=(program.place(node),),
            )


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


RULES: Final = (
    (STATUS_LOST_IN_DECLARATION, status_lost_in_declaration),
    (STATUS_LOST_IN_PIPE, status_lost_in_pipe),
    (STATUS_OF_NEGATION, status_of_negation),
    (SUCCESS_UNCHECKED, success_unchecked),
)
