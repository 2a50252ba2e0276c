# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about programs that a gate starts, and files that it writes again."""

import ast
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import Example, LintRule, Violation
from ci_doctor.lint.python.program import PythonProgram
from ci_doctor.model.finding import Rule, Severity

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

UNCHECKED_SUBPROCESS = LintRule(
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


def unchecked_subprocess(program: PythonProgram) -> Iterator[Violation]:
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
            UNCHECKED_SUBPROCESS,
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


# A file that each try appends to, so that a later try reads what an earlier one wrote.

_TRY_WORDS = ("attempt", "retry", "retries", "tries", "trial")
# Files that the CI system reads as a stream, and logs, are meant to grow.
_STREAMS = ("GITHUB_", "BASH_ENV", "log")

_APPENDED = """\
for attempt in range(3):
    with open("answers.jsonl", "a") as answers:
        answers.write(ask())
    if compare("answers.jsonl"):
        break
"""

APPEND_IN_RETRY = LintRule(
    rule=Rule(
        id="gate/append-in-retry",
        severity=Severity.WARNING,
        meaning=(
            "A loop of tries appends to one file. The second try's file holds the first try's "
            "lines too, so it is judged by both."
        ),
        remedy="Open the file with `w`, or give each try a file of its own.",
    ),
    bad=((Example(file=".buildkite/client.py", text=_APPENDED),),),
    good=(
        (Example(file=".buildkite/client.py", text=_APPENDED.replace('"a"', '"w"')),),
        (
            Example(
                file=".buildkite/client.py",
                text=_APPENDED.replace('"answers.jsonl"', 'f"answers-{attempt}.jsonl"'),
            ),
        ),
        (
            Example(
                file=".buildkite/client.py",
                text=_APPENDED.replace("attempt", "prompt").replace("range(3)", "prompts"),
            ),
        ),
    ),
)


def append_in_retry(program: PythonProgram) -> Iterator[Violation]:
    """Files opened to append in a loop of tries, by a name that is the same in each."""
    for call in program.calls:
        path = _appended_path(program, call)
        if path is None or any(word in ast.unparse(path) for word in _STREAMS):
            continue
        loop = _loop_of_tries(program, call)
        if loop is None or _names(path) & _bound(loop):
            continue
        if _is_emptied(program, loop, ast.unparse(path)):
            continue
        yield program.violation(
            APPEND_IN_RETRY,
            call,
            f"each try appends to {ast.unparse(path)}, and none empties it",
            remedy="Open it with `w`, or put the number of the try into its name",
            related=(loop,),
        )


def _appended_path(program: PythonProgram, call: ast.Call) -> ast.expr | None:
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "open"
    if program.dotted(call.func) in {"open", "io.open"}:
        path, rest = (call.args[0] if call.args else None), call.args[1:]
    elif is_method and isinstance(call.func, ast.Attribute):
        path, rest = call.func.value, call.args
    else:
        return None
    modes = [*rest[:1], *(each.value for each in call.keywords if each.arg == "mode")]
    appends = any(
        isinstance(mode, ast.Constant) and isinstance(mode.value, str) and "a" in mode.value
        for mode in modes
    )
    return path if appends else None


def _loop_of_tries(program: PythonProgram, call: ast.Call) -> ast.For | ast.While | None:
    for above in program.parents(call):
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            return None
        if isinstance(above, ast.For | ast.While):
            header = above.target if isinstance(above, ast.For) else above.test
            words = ast.unparse(header).lower()
            if any(word in words for word in _TRY_WORDS):
                return above
    return None


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _bound(loop: ast.For | ast.While) -> set[str]:
    """Names that the loop gives a value: a path made of them differs from try to try."""
    return {
        each.id
        for each in ast.walk(loop)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def _is_emptied(program: PythonProgram, loop: ast.For | ast.While, path: str) -> bool:
    """Whether the loop removes the file, or opens it to write from its beginning."""
    for node in ast.walk(loop):
        if not isinstance(node, ast.Call):
            continue
        name = program.dotted(node.func).rpartition(".")[2]
        method = node.func.attr if isinstance(node.func, ast.Attribute) else name
        if method in {"remove", "unlink", "rmtree", "truncate", "write_text", "write_bytes"}:
            return True
        if (
            name == "open"
            and path in ast.unparse(node)
            and '"w' in ast.unparse(node).replace("'", '"')
        ):
            return True
    return False


RULES: Final = (
    (UNCHECKED_SUBPROCESS, unchecked_subprocess),
    (APPEND_IN_RETRY, append_in_retry),
)
