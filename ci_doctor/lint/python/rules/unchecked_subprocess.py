# SPDX-License-Identifier: Apache-2.0
"""Pure. A command whose exit status nobody reads."""

import ast
from collections.abc import Iterator

from ci_doctor.lint.lint_rule import Example, LintRule
from ci_doctor.lint.python.program import PythonProgram
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

_RUNS = {"subprocess.run", "subprocess.call", "os.system"}
# Commands that tidy up or only show something: their failure changes nothing.
_HARMLESS = frozenset(
    (
        *("kill", "pkill", "killall", "fuser", "ipcrm", "rm", "rmdir", "umount", "sync"),
        *("nvidia-smi", "rocm-smi", "ps", "top", "free", "df", "du", "lsof", "ss", "netstat"),
        *("ls", "cat", "head", "tail", "echo", "clear", "reset", "stty", "tput"),
        *("uname", "hostname", "lscpu", "env", "printenv", "which", "ulimit"),
    )
)
_HARMLESS_PAIRS = {
    ("docker", word) for word in ("rm", "stop", "kill", "logs", "ps", "images", "rmi", "system")
} | {("buildkite-agent", "annotate"), ("kubectl", "delete"), ("kubectl", "logs")}

_BAD = """\
import subprocess

subprocess.run(["python3", "compare.py", "baseline.jsonl", "candidate.jsonl"])
print("outputs are the same")
"""

RULE = LintRule(
    rule=Rule(
        id="gate/unchecked-subprocess",
        severity=Severity.WARNING,
        meaning=(
            "A program of the job runs a command and never looks at its exit status, so the job "
            "goes on, and may pass, if the command fails."
        ),
        remedy="Write `check=True`, or read `returncode`. `check=False` says that it is on purpose.",
    ),
    bad=(
        (Example(file=".buildkite/gate.py", text=_BAD),),
        (Example(file="ci/build.py", text='import os\nos.system("pip install -e .")\n'),),
    ),
    good=(
        (Example(file=".buildkite/gate.py", text=_BAD.replace('"])', '"], check=True)')),),
        (Example(file=".buildkite/gate.py", text=_BAD.replace('"])', '"], check=False)')),),
        (
            Example(
                file="ci/clean.py",
                text='import subprocess\nsubprocess.run(["docker", "rm", "-f", name])\n',
            ),
        ),
    ),
)


def check(program: PythonProgram) -> Iterator[Violation]:
    """Commands that stand as statements of their own, with no check of their status."""
    for call in program.calls:
        name = program.dotted(call.func)
        if name not in _RUNS or not isinstance(program.parent(call), ast.Expr):
            continue
        if any(keyword.arg in {"check", None} for keyword in call.keywords):
            continue
        if _is_harmless(call) or _is_in_tidying(program, call):
            continue
        yield program.violation(
            RULE,
            call,
            f"nobody reads the exit status of this `{name}`",
            remedy=_remedy(name),
        )


def _remedy(name: str) -> str:
    if name == "subprocess.run":
        return "Add `check=True`"
    return "Use `subprocess.run(…, check=True)`"


def _is_harmless(call: ast.Call) -> bool:
    words = _words(call)
    if not words:
        return True
    if words[0] == "sudo":
        words = words[1:]
    program = words[0].rpartition("/")[2] if words else ""
    if program in _HARMLESS or tuple(words[:2]) in _HARMLESS_PAIRS:
        return True
    return "||" in words or "|| true" in " ".join(words)


def _words(call: ast.Call) -> list[str]:
    """The constant words at the beginning of the command; empty if it is computed."""
    if not call.args:
        return []
    command = call.args[0]
    if isinstance(command, ast.Constant) and isinstance(command.value, str):
        return command.value.split()
    if isinstance(command, ast.JoinedStr):
        first = command.values[0] if command.values else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            return first.value.split()
        return []
    if isinstance(command, ast.List | ast.Tuple):
        return [
            each.value if isinstance(each, ast.Constant) and isinstance(each.value, str) else "?"
            for each in command.elts
        ]
    return []


def _is_in_tidying(program: PythonProgram, call: ast.Call) -> bool:
    """In `finally`, in a handler, or in a function whose name says that it tidies up."""
    for above in program.parents(call):
        if isinstance(above, ast.ExceptHandler):
            return True
        if isinstance(above, ast.Try) and _stands_in(above.finalbody, program, call):
            return True
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            name = above.name.lower()
            return any(word in name for word in ("clean", "stop", "kill", "teardown", "shutdown"))
    return False


def _stands_in(body: list[ast.stmt], program: PythonProgram, node: ast.AST) -> bool:
    return any(above in body for above in program.parents(node))
