# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about failures that the rest of a script passes over."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule, Violation, word_set
from ci_doctor.lint.shell.checking_commands import (
    ASKING,
    LINTERS,
    WORK,
    StatusUse,
    always_succeeds,
    is_check,
    is_judged_later,
    is_quiet,
    is_work,
    named,
    use_of,
)
from ci_doctor.lint.shell.failure_fate import STATUS, Fate, Loss, fates_of
from ci_doctor.lint.shell.shell_program import ShellProgram, script, violation
from ci_doctor.model.outcome import Rule, Severity
from ci_doctor.syntax.shell_nodes import NodeKind, ShellNode

FAILURE_LOST: Final = LintRule(
    rule=Rule(
        id="shell/failure-lost",
        severity=Severity.ERROR,
        meaning="A test or a comparison fails, and the script ends with success: a later command gives the status, or an operator, a branch or a `wait` drops it.",
        remedy="Keep the status, tidy up, then exit with it: `rc=0; check || rc=$?; …; exit $rc`. Or write `set -e`.",
    ),
    bad=(
        script("pytest tests\npkill -P $$ vllm || true\n"),
        script("python server.py --port 8000 &\nPID=$!\npytest tests\nkill $PID\n"),
        script('pytest tests\necho "tests finished"\n'),
        script("set -e\npytest tests || true\n"),
        script('set -e\npytest tests || echo "tests failed"\ndocker stop server\n'),
        script("set -e\npytest tests &\nwait\n"),
        script("if pytest tests; then\n  echo passed\nelse\n  echo failed\nfi\n"),
        script('set +e\npytest tests\nrc=$?\nset -e\necho "pytest ended with $rc"\n'),
        script("pytest a\nrc=$?\npytest b\nrc=$?\nexit $rc\n"),
        script("for each in a b c; do\n  pytest tests/$each\ndone\n"),
        script("run_tests() {\n  pytest tests\n}\nrun_tests\ndocker compose down\n"),
        script("set -e\npytest tests && echo passed\ndocker stop server\n"),
        script("set -e\npytest a & first=$!\npytest b & second=$!\nwait $first $second\n"),
        script("make wheel\necho done\n"),
        script("set -e\nmypy src || true\npytest tests\n"),
        script("set -e\ntrap 'docker stop server; exit 0' EXIT\npytest tests\n"),
    ),
    good=(
        script("set -e\npytest tests\npkill -P $$ vllm || true\n"),
        script("pytest tests\nrc=$?\nkill $PID\nexit $rc\n"),
        script("rc=0\npytest a || rc=$?\npytest b || rc=$?\nexit $rc\n"),
        script("pytest tests || { docker logs server; exit 1; }\ndocker stop server\n"),
        script("pytest tests || pytest --last-failed tests || exit 1\necho done\n"),
        script("set -e\npytest tests &\nwait $!\n"),
        script("set -e\nfor each in a b c; do\n  pytest tests/$each\ndone\n"),
        script("trap 'docker stop server' EXIT\npytest tests\n"),
        script("pytest --junitxml=report.xml tests || true\npython3 judge.py report.xml\n"),
        script("if ! pytest tests; then\n  docker logs server\n  exit 1\nfi\necho passed\n"),
        script(
            "failed=0\nfor each in a b; do\n  pytest tests/$each || failed=1\ndone\nexit $failed\n"
        ),
        script("grep -q ready log || true\npytest --version\necho done\n"),
    ),
)


def failure_lost(program: ShellProgram) -> Iterator[Violation]:
    """Checks by what becomes of their failure; the last work of a script that tidies up; traps that exit with 0."""
    fates = fates_of(program)
    is_reported = False
    for node, decisive in fates.checks():
        fate = fates.fate(node)
        if (
            fate.loss is None
            or fate.loss is Loss.PIPE
            or (fate.exempt is not None and fate.loss is Loss.IGNORED)
        ):
            if node.word == "wait":
                # `wait a b` has the status of the last one.
                arguments = [
                    each for each in program.words(node).arguments if not each.startswith("-")
                ]
                several = len(arguments) > 1 or any(
                    re.search(r"\[[@*]\]|jobs -p", each) for each in arguments
                )
                if several and not program.words(node).has("-n"):
                    yield violation(
                        program,
                        FAILURE_LOST,
                        node,
                        f"`{named(program, node)}` has the status of the last process alone",
                        remedy='`for pid in …; do wait "$pid" || rc=$?; done`, then `exit "$rc"`',
                    )
            continue
        if is_judged_later(program, node):
            continue
        is_reported = True
        related = (program.place(decisive),) if decisive is not node else ()
        yield violation(
            program,
            FAILURE_LOST,
            node,
            _summary(program, node, decisive, fate),
            remedy=_remedy(program, node, fate),
            severity=_severity(program, decisive, fate),
            related=related,
        )
    if not is_reported:
        yield from _last_work(program)
    yield from _traps(program)


def _severity(program: ShellProgram, decisive: ShellNode, fate: Fate) -> Severity | None:
    """A linter may be asked for advice, and what runs in the background may be a load."""
    waits = fate.by is not None and fate.by.word == "wait"
    asked = program.words(decisive)
    is_advice = not LINTERS.isdisjoint((asked.name, *asked.arguments))
    is_alone = fate.loss is Loss.BACKGROUND and not waits
    return Severity.WARNING if is_advice or is_alone else None


def _summary(program: ShellProgram, node: ShellNode, decisive: ShellNode, fate: Fate) -> str:  # noqa: C901, PLR0911 - one branch for each case
    name = f"`{named(program, node)}`"
    if decisive is not node:
        name += f", which runs `{named(program, decisive)}`,"
    by = f"`{named(program, fate.by)}`" if fate.by is not None else "what follows"
    match fate.loss:
        case Loss.SWALLOWED:
            return f"{by} hides a failure of {name}"
        case Loss.BRANCH:
            return f"No branch ends the script if {name} fails"
        case Loss.UNREAD:
            return f"The status of {name} is kept in a variable, and nothing decides by it"
        case Loss.LOOP:
            return f"Only the last round of the loop counts: an earlier failure of {name} is lost"
        case Loss.BACKGROUND if fate.by is not None and fate.by.word == "wait":
            return f"A bare `wait` succeeds whatever became of {name}"
        case Loss.BACKGROUND:
            return f"Nothing waits for {name} in the background, so its failure is lost"
        case Loss.WORDS:
            return f"{by} drops the status of {name}"
        case _:
            return f"A failure of {name} is ignored: the script goes on with {by}"


def _remedy(program: ShellProgram, node: ShellNode, fate: Fate) -> str:
    name = named(program, node)
    match fate.loss:
        case Loss.BACKGROUND:
            return (
                f'`{name} & pid=$!`, then `wait "$pid" || exit 1`'
                if not name.endswith("&")
                else 'Keep `pid=$!`, then `wait "$pid" || exit 1`'
            )
        case Loss.UNREAD:
            return "End with `exit` and that variable"
        case Loss.LOOP:
            return f'`{name} || rc=$?` in the loop, and `exit "$rc"` after it'
        case _:
            return f'`rc=0; {name} || rc=$?`, and `exit "$rc"` at the end'


def _last_work(program: ShellProgram) -> Iterator[Violation]:
    """A script without errexit whose last work is followed by what only says or tidies something."""
    statements = [each for each in program.root.children if each.kind is not NodeKind.FUNCTION]
    for index in range(len(statements) - 1, -1, -1):
        node = statements[index]
        if is_work(program, node):
            rest = statements[index + 1 :]
            if (
                rest
                and program.errexit.at(node) is False
                and fates_of(program)
                .fate(node.children[0] if node.kind is NodeKind.AND_OR else node)
                .loss
                is Loss.IGNORED
            ):
                yield violation(
                    program,
                    FAILURE_LOST,
                    node,
                    f"A failure of `{named(program, node)}` is ignored: the script ends with `{named(program, rest[-1])}`",
                    remedy="Write `set -e` at the beginning, or keep the status and exit with it",
                    severity=Severity.WARNING,
                )
            return
        inside = [node, *node.own()]
        leaves = any(each.word in ("exit", "return") for each in inside)
        is_success = node.word == "exit" and program.words(node).arguments[:1] == ("0",)
        if (leaves or not is_quiet(program, node)) and not is_success:
            return


def _traps(program: ShellProgram) -> Iterator[Violation]:
    """Handlers of the end that exit with 0: every failure before is lost."""
    for node in program.by_name.get("trap", ()):
        words = program.words(node).arguments
        if len(words) < 2 or not {"EXIT", "ERR", "0"} & set(words[1:]):
            continue
        ending = _ending(program, words[0])
        if ending is not None:
            yield violation(
                program,
                FAILURE_LOST,
                node,
                f"`{ending}` in the trap of {words[-1]} ends the script with 0 after every failure",
                remedy="Begin the handler with `rc=$?`, and end it with `exit $rc`",
            )


def _ending(program: ShellProgram, handler: str) -> str | None:
    """What a handler ends with, if that is 0 in any case."""
    exits = re.search(r"(?:^|[;&|{\n])\s*(exit\s+0)\s*;?\s*\}?\s*$", handler)
    if exits:
        return exits[1]
    if re.search(r"[;\n]\s*exit\s+\$\?\s*;?$", handler):
        return "exit $?"
    function = program.functions.get(handler.strip())
    if function is None or not function.children:
        return None
    body = function.children[-1].children
    if not body or body[-1].word != "exit":
        return None
    status = program.words(body[-1]).arguments[:1]
    if status == ("0",):
        return "exit 0"
    return "exit $?" if status == ("$?",) and len(body) > 1 else None


# Several commands under an operator or a condition, where errexit is off.

ERREXIT_OFF: Final = LintRule(
    rule=Rule(
        id="shell/errexit-off",
        severity=Severity.WARNING,
        meaning="Bash switches errexit off in all that stands before `||` or `&&`, after `!`, and in the condition of `if` or `while`, functions included. Of several commands there only the last one's status counts.",
        remedy="Write `|| return 1` after each command of the function, or call it as a statement of its own.",
    ),
    bad=(
        script(
            "set -e\nbuild_and_test() {\n  make wheel\n  pytest tests\n}\nbuild_and_test || exit 1\n"
        ),
        script(
            "set -e\nrun() {\n  pytest tests\n  docker stop server\n}\nif run; then\n  echo passed\nelse\n  exit 1\nfi\n"
        ),
        script("set -e\nrun() {\n  pip install -e .\n  pytest tests\n}\nrun && echo passed\n"),
        script("set -e\n( cd app; pytest tests; rm -rf out ) || exit 1\n"),
        script("set -e\nif ! { make wheel; pytest tests; }; then\n  exit 1\nfi\n"),
    ),
    good=(
        script(
            "set -e\nbuild_and_test() {\n  make wheel || return 1\n  pytest tests\n}\nbuild_and_test || exit 1\n"
        ),
        script(
            "set -e\nbuild_and_test() {\n  make wheel && pytest tests\n}\nbuild_and_test || exit 1\n"
        ),
        script(
            "set -e\nbuild_and_test() {\n  make wheel\n  pytest tests\n}\nbuild_and_test\necho passed\n"
        ),
        script("set -e\n( cd app && pytest tests ) || exit 1\n"),
        script('set -e\nsay() {\n  echo "begin"\n  pytest tests\n}\nsay || exit 1\n'),
    ),
)


def errexit_off(program: ShellProgram) -> Iterator[Violation]:
    """The first command of each such body that matters and is not its last."""
    fates = fates_of(program)
    known: set[int] = set()
    for node in program.commands:
        body = next(
            (
                each
                for each in node.ancestors()
                if each.kind in (NodeKind.FUNCTION, NodeKind.SUBSHELL, NodeKind.GROUP)
            ),
            None,
        )
        if body is None or id(body) in known or not _matters(program, node):
            continue
        fate = fates.fate(node)
        if fate.loss is not Loss.IGNORED or fate.exempt is None:
            continue
        known.add(id(body))
        name = named(program, node)
        checks = fates.check_of(node) is not None
        yield violation(
            program,
            ERREXIT_OFF,
            node,
            f"errexit is off here, because of line {program.line(fate.exempt.start)}: a failure of `{name}` is lost",
            remedy=f"Write `{name} || return 1`"
            if (
                node.enclosing(NodeKind.SUBSHELL) is not None
                and any(each.kind is NodeKind.FUNCTION for each in node.ancestors())
            )
            else f"Join the commands: `{name} && …`",
            severity=Severity.ERROR if checks else None,
            related=(program.place(fate.exempt),),
        )


def _matters(program: ShellProgram, node: ShellNode) -> bool:
    """A check, or a program that does something: not a message, and no function that is not known to."""
    if is_check(program, node):
        return True
    if node.word in program.functions:
        return fates_of(program).check_of(node) is not None
    return (
        not is_quiet(program, node)
        and not always_succeeds(program, node)
        and program.words(node).name in WORK | _FETCHES
        and not ASKING.intersection(program.words(node).arguments)
    )


_FETCHES: Final = word_set("apt apt-get curl dnf unzip wget yum")


# `$?` that is the status of another command than the one meant.

STALE_STATUS: Final = LintRule(
    rule=Rule(
        id="shell/stale-status",
        severity=Severity.ERROR,
        meaning="`$?` is the status of the last command alone. Behind an `echo`, a `set -e`, a start in the background or a bare `wait` it is 0, whatever the command before has done.",
        remedy="Keep the status at once: `cmd; rc=$?`, or `cmd || rc=$?`, and read `$rc` from then on.",
    ),
    bad=(
        script('pytest tests\necho "tests are done"\nif [ $? -ne 0 ]; then exit 1; fi\n'),
        script("set +e\npytest tests\nset -e\nrc=$?\nexit $rc\n"),
        script("pytest tests &\nrc=$?\nexit $rc\n"),
        script("pytest a &\npytest b &\nwait\nexit $?\n"),
        script("pytest tests\nrc=$?\nif [ $rc -ne 0 ]; then\n  echo failed\n  exit $?\nfi\n"),
        script("pytest tests || { echo failed; exit $?; }\n"),
    ),
    good=(
        script('pytest tests\nrc=$?\necho "tests are done"\nif [ $rc -ne 0 ]; then exit 1; fi\n'),
        script("set +e\npytest tests\nrc=$?\nset -e\nexit $rc\n"),
        script("pytest tests &\npid=$!\nwait $pid\nrc=$?\nexit $rc\n"),
        script("pytest tests || { rc=$?; echo failed; exit $rc; }\n"),
        script("pytest tests || exit $?\n"),
        script(
            "cleanup() {\n  rc=$?\n  docker stop server\n  exit $rc\n}\ntrap cleanup EXIT\npytest tests\n"
        ),
        script("set -e\npytest tests\necho done\nexit $?\n"),
    ),
)

_READS_STATUS: Final = (
    NodeKind.COMMAND,
    NodeKind.ASSIGNMENT,
    NodeKind.DECLARATION,
    NodeKind.TEST,
)
_WRITES_STATUS: Final = (
    NodeKind.COMMAND,
    NodeKind.PIPELINE,
    NodeKind.SUBSHELL,
    NodeKind.GROUP,
    NodeKind.ASSIGNMENT,
)


def stale_status(program: ShellProgram) -> Iterator[Violation]:
    """Statements that read `$?` where it is 0 in any case, and something before could have failed."""
    for match in STATUS.finditer(program.text):
        node = program.innermost(match.start())
        statement = _reader(program, node, match.start()) if node is not None else None
        if statement is None:
            continue
        before = [
            each for each in statement.preceding(8) if each.kind is not NodeKind.HERE_DOCUMENT
        ]
        writer = before[0] if before and not before[0].is_condition else None
        if writer is None or not always_succeeds(program, writer):
            continue
        if STATUS.search(program.of_node(writer)):
            continue
        name = named(program, writer)
        meant = _meant(program, before)
        # In a branch, and behind a bare `wait`, the status before is the one that decides.
        is_handler = statement.word in ("exit", "return") and _handles(program, statement, before)
        if meant or is_handler or writer.word == "wait":
            yield violation(
                program,
                STALE_STATUS,
                statement,
                f"`$?` is 0 here: it is the status of `{name}`"
                + (f", not of `{meant}`" if meant and meant != name else ""),
                remedy=f"Write `{meant} || rc=$?`, and read `$rc` here"
                if meant and meant != name
                else "Keep the status at once: `rc=$?`",
            )


def _reader(program: ShellProgram, node: ShellNode, offset: int) -> ShellNode | None:
    """The statement of a sequence whose first command reads `$?` at `offset`; None if it decides nothing by it."""
    current = node
    while current.is_condition or (
        current.parent is not None
        and current.parent.kind in (NodeKind.AND_OR, NodeKind.PIPELINE, NodeKind.NEGATION)
    ):
        parent = current.parent
        if parent is None or parent.children[0] is not current or parent.kind is NodeKind.LOOP:
            return None
        current = parent
    if node.kind not in _READS_STATUS or node.word in ("echo", "printf", "log", "info", "trap"):
        return None
    # A string in single quotes is for another program.
    return current if "'" not in program.text[current.start : offset].replace("\\'", "") else None


def _meant(program: ShellProgram, before: list[ShellNode]) -> str:
    """The command whose status was meant: the nearest of `before` that may fail, if nobody reads it."""
    for each in before:
        if each.is_condition or STATUS.search(program.of_node(each)):
            return ""
        if each.background:
            return named(program, each)
        if not always_succeeds(program, each):
            is_ignored = each.kind in _WRITES_STATUS and not is_quiet(program, each)
            is_ignored = is_ignored and use_of(program, each) is StatusUse.IGNORED
            return named(program, each) if is_ignored else ""
    return ""


def _handles(program: ShellProgram, statement: ShellNode, before: list[ShellNode]) -> bool:
    """Whether a branch after a test, or a group behind `||`, says something and then ends with `$?`."""
    outer = statement.parent
    if outer is None or not all(
        each.kind in (NodeKind.TEST, NodeKind.NEGATION)
        if each.is_condition
        else always_succeeds(program, each)
        for each in before
    ):
        return False
    if outer.kind in (NodeKind.IF, NodeKind.ELSE, NodeKind.ELIF):
        return True
    whole = outer.parent
    is_group = outer.kind in (NodeKind.GROUP, NodeKind.SUBSHELL) and whole is not None
    return (
        is_group
        and whole is not None
        and whole.kind is NodeKind.AND_OR
        and whole.children[0] is not outer
    )


RULES: Final = (
    (FAILURE_LOST, failure_lost),
    (ERREXIT_OFF, errexit_off),
    (STALE_STATUS, stale_status),
)
