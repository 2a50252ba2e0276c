# SPDX-License-Identifier: Apache-2.0
"""Pure. Checks whose failure decides nothing: ignored, swallowed, or read and forgotten."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.checking_commands import is_quiet, is_work
from ci_doctor.lint.shell.failure_fate import Loss, fates_of
from ci_doctor.lint.shell.judged_files import is_judged_later, named
from ci_doctor.lint.shell.shell_node import NodeKind, ShellNode
from ci_doctor.lint.shell.shell_options import OptionState, ShellOption
from ci_doctor.lint.shell.shell_violation import script, violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.failure_fate import Fate
    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.violation import Violation

RULE: Final = LintRule(
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

_LINTERS: Final = frozenset({"ruff", "mypy", "flake8", "pylint"})


def check(program: ShellProgram) -> Iterator[Violation]:
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
                yield from _many_waits(program, node)
            continue
        if is_judged_later(program, node):
            continue
        is_reported = True
        related = (program.place(decisive),) if decisive is not node else ()
        yield violation(
            program,
            RULE,
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
    is_advice = program.words(decisive).name in _LINTERS
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


def _many_waits(program: ShellProgram, node: ShellNode) -> Iterator[Violation]:
    """`wait a b` has the status of the last one."""
    arguments = [each for each in program.words(node).arguments if not each.startswith("-")]
    several = len(arguments) > 1 or any(re.search(r"\[[@*]\]|jobs -p", each) for each in arguments)
    if several and not program.words(node).has("-n"):
        yield violation(
            program,
            RULE,
            node,
            f"`{named(program, node)}` has the status of the last process alone",
            remedy='`for pid in …; do wait "$pid" || rc=$?; done`, then `exit "$rc"`',
        )


def _last_work(program: ShellProgram) -> Iterator[Violation]:
    """A script without errexit whose last work is followed by what only says or tidies something."""
    statements = [each for each in program.root.children if each.kind is not NodeKind.FUNCTION]
    errexit = program.once(_errexit)
    for index in range(len(statements) - 1, -1, -1):
        node = statements[index]
        if is_work(program, node):
            rest = statements[index + 1 :]
            if (
                rest
                and errexit.at(node) is False
                and fates_of(program).fate(_first(node)).loss is Loss.IGNORED
            ):
                yield violation(
                    program,
                    RULE,
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


def _first(node: ShellNode) -> ShellNode:
    return node.children[0] if node.kind is NodeKind.AND_OR else node


def _errexit(program: ShellProgram) -> OptionState:
    return OptionState(program, ShellOption.ERREXIT)


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
                RULE,
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
