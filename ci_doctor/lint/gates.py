# SPDX-License-Identifier: Apache-2.0
"""Pure. A Python program that decides in a job: rules about its status, and about results that it loses."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from ci_doctor.lint.lint_rule import Example, LintRule, Unreadable, Violation
from ci_doctor.lint.python_program import (
    PythonProgram,
    caught,
    inside,
    is_broad,
    is_silent,
    is_try_again,
    parse,
    says_nothing,
)
from ci_doctor.lint.source_files import CiRole, FileReading
from ci_doctor.model.outcome import Rule, Severity

# Rules about the status with which a Python program ends.


# A handler of all errors that ends the program as if it had succeeded.

_ZERO_AFTER_ERROR = """\
import sys

try:
    main()
except Exception as error:
    print(error)
    sys.exit(0)
"""

_OPEN = """\
def compare_outputs(first, second):
    try:
        return read(first) == read(second)
    except Exception as error:
        print(error)
        return True
"""

EXIT_ZERO = LintRule(
    rule=Rule(
        id="gate/success-on-error",
        severity=Severity.ERROR,
        meaning=(
            "A program of the job catches every error and exits with status 0, or its comparison "
            "answers True for an error. A step that crashes is green."
        ),
        remedy="Exit with a status other than 0 in the handler, or answer False.",
    ),
    bad=(
        (Example(file="ci/gate.py", text=_ZERO_AFTER_ERROR),),
        (Example(file="ci/gate.py", text=_OPEN),),
    ),
    good=(
        (Example(file="ci/gate.py", text=_OPEN.replace("True", "False")),),
        (Example(file="ci/gate.py", text=_OPEN.replace("compare_outputs", "is_stopped")),),
        (Example(file="ci/gate.py", text=_ZERO_AFTER_ERROR.replace("exit(0)", "exit(1)")),),
        (
            Example(
                file="ci/gate.py",
                text=_ZERO_AFTER_ERROR.replace("Exception as error", "KeyboardInterrupt as error"),
            ),
        ),
    ),
)


def exit_zero(program: PythonProgram) -> Iterator[Violation]:
    """Handlers of everything that exit with 0, or that answer for a comparison."""
    for node in program.nodes:
        if not isinstance(node, ast.ExceptHandler) or not is_broad(program, node):
            continue
        # The one exit of a handler, if it is a statement of its own and under no condition.
        exits = [
            each
            for each in inside(node.body)
            if isinstance(each, ast.Call)
            and program.dotted(each.func) in {"sys.exit", "exit", "quit"}
        ]
        statements = [each.value for each in node.body if isinstance(each, ast.Expr)]
        leave = exits[0] if len(exits) == 1 and exits[0] in statements else None
        if leave is not None and _is_success(leave):
            yield program.violation(
                EXIT_ZERO,
                leave,
                "every error ends the program with status 0 here",
                remedy="Exit with 1, or let the error end the program.",
                related=(node,),
            )
        last = node.body[-1]
        function = program.scope(node)
        if (
            isinstance(last, ast.Return)
            and (isinstance(last.value, ast.Constant) and last.value.value is True)
            and _compares(function)
        ):
            yield program.violation(
                EXIT_ZERO,
                last,
                "every error is answered with True here, as if the comparison had succeeded",
                remedy="Answer False, or let the error end the program.",
                related=(node,),
            )


def _compares(function: ast.AST) -> bool:
    """Whether the name of a function says that it decides."""
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    words = re.split("_+", function.name.lower())
    return words[0] in {"compare", "verify", "validate", "check", "assert"}


def _is_success(call: ast.Call) -> bool:
    if not call.args:
        return True
    status = call.args[0]
    return isinstance(status, ast.Constant) and status.value in {0, None}


# A Python program that decides in a job, and what its rules report.

# Folders of CI: a program in them runs in a job, and what it exits with is the job's result.
_FOLDERS = re.compile(
    r"\.?(?:buildkite|github|gitlab|circleci|jenkins|azure-pipelines|ci|qa)|.+[_-]ci"
    r"|ci[_-](?:checks?|gates?|helpers|jobs?|scripts?|tests?|tools?|utils)"
)


def is_gate(file: str) -> bool:
    """Whether a Python file lies in a folder of CI. `file` is relative to the repository."""
    path = PurePosixPath(file)
    if path.suffix != ".py":
        return False
    return any(_FOLDERS.fullmatch(part.lower()) for part in path.parts[:-1])


def check_python(file: str, text: str) -> FileReading:
    """The violations of one program, by their lines. It raises for no text."""
    try:
        program = parse(file, text)
    except SyntaxError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        reason = f"Python {version} refuses its syntax: {error.msg}"
        unreadable = Unreadable(file=file, line=error.lineno or 1, reason=reason)
        return FileReading(role=CiRole.GATE, unreadable=(unreadable,))
    try:
        violations = [violation for _, check in CHECKED for violation in check(program)]
    except RecursionError:
        reason = "an expression of it is nested too deeply to be read"
        unreadable = Unreadable(file=file, line=1, reason=reason)
        return FileReading(role=CiRole.GATE, unreadable=(unreadable,))
    violations.sort(key=lambda each: each.place.line)
    return FileReading(role=CiRole.GATE, violations=tuple(violations))


# Rules about programs that a gate starts, and files that it writes again.

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
            remedy="Add `check=True`"
            if name == "subprocess.run"
            else "Use `subprocess.run(…, check=True)`",
        )


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
    inner: ast.AST = call
    for above in program.parents(call):
        if isinstance(above, ast.ExceptHandler):
            return True
        if isinstance(above, ast.Try) and inner in above.finalbody:
            return True
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            name = above.name.lower()
            return any(word in name for word in ("clean", "stop", "kill", "teardown", "shutdown"))
        inner = above
    return False


# Requests of a client whose errors leave no trace in what is compared later.

_LIBRARIES = (
    "requests.",
    "httpx.",
    "aiohttp.",
    "urllib.request.urlopen",
    "urllib3.",
    "http.client.",
)
_VERBS = {"get", "post", "put", "request", "stream", "urlopen"}
_CLIENTS = ("session", "client", "http")
_OPENAI = (".completions.create", ".embeddings.create", ".responses.create")
_KEEPS = {"append", "extend", "add", "write", "put", "writelines"}

_LEFT_OUT = """\
import requests

answers = []
for prompt in prompts:
    try:
        reply = requests.post(url, json={"prompt": prompt}, timeout=60)
        answers.append(reply.json()["text"])
    except Exception as error:
        print(f"request failed: {error}")
"""

_EMPTY = """\
import requests

def ask(prompt):
    try:
        reply = requests.post(url, json={"prompt": prompt}, timeout=60)
        return reply.json()["text"]
    except Exception as error:
        print(error)
        return ""
"""

UNCOUNTED_REQUEST_ERROR = LintRule(
    rule=Rule(
        id="gate/uncounted-request-error",
        severity=Severity.WARNING,
        meaning=(
            "A client sends requests and keeps the answers. A request that fails is left out, or "
            "has an empty answer. Fewer answers are compared than were asked for, and nobody "
            "counts them."
        ),
        remedy="Count the errors, and end with a status other than 0 if there are any.",
    ),
    bad=(
        (Example(file=".buildkite/client.py", text=_LEFT_OUT),),
        (Example(file=".buildkite/client.py", text=_EMPTY),),
        (
            Example(
                file="ci/compare.py",
                text=(
                    "import json, urllib.request\n"
                    "def ask(base):\n"
                    "    try:\n"
                    "        reply = urllib.request.urlopen(base + '/v1/completions')\n"
                    "        return json.load(reply)['choices'][0]['text']\n"
                    "    except OSError:\n"
                    "        return 'error'\n"
                ),
            ),
        ),
        (
            Example(
                file="ci/ask.py",
                text=(
                    "import aiohttp\n"
                    "async def ask(session, url, prompt, out):\n"
                    "    try:\n"
                    "        async with session.post(url, json=prompt) as reply:\n"
                    "            out[prompt] = await reply.json()\n"
                    "    except Exception:\n"
                    "        pass\n"
                ),
            ),
        ),
    ),
    good=(
        (Example(file=".buildkite/client.py", text=_EMPTY.replace('return ""', "raise")),),
        (
            Example(
                file=".buildkite/client.py",
                text=_LEFT_OUT.replace(
                    '        print(f"request failed: {error}")',
                    "        failures.append(error)",
                ),
            ),
        ),
        (
            Example(
                file="ci/wait.py",
                text=(
                    "import urllib.request\n"
                    "def is_ready(base):\n"
                    "    try:\n"
                    "        return urllib.request.urlopen(base + '/health').status\n"
                    "    except OSError:\n"
                    "        return None\n"
                ),
            ),
        ),
        (
            Example(
                file="ci/notify.py",
                text=(
                    "import requests\n"
                    "try:\n"
                    "    requests.post(hook, json=message, timeout=5)\n"
                    "except Exception as error:\n"
                    "    print(error)\n"
                ),
            ),
        ),
    ),
)


def uncounted_request_error(program: PythonProgram) -> Iterator[Violation]:
    """Handlers that drop one of many requests without a trace, or that answer in place of the server."""
    for node in program.nodes:
        if not isinstance(node, ast.Try) or is_try_again(program, node):
            continue
        calls = (each for each in inside(node.body) if isinstance(each, ast.Call))
        request = next((each for each in calls if _is_request(program, each)), None)
        if request is None:
            continue
        many = ast.For | ast.AsyncFor | ast.AsyncFunctionDef
        is_one_of_many = any(isinstance(above, many) for above in program.parents(node))
        kept = is_one_of_many and _keeps_answers(node.body)
        for handler in node.handlers:
            if not _catches_requests(program, handler):
                continue
            dropped = kept and is_silent(program, handler)
            if dropped or (
                not _is_probe(program, node, request) and _answers_nothing(node, handler, program)
            ):
                yield program.violation(
                    UNCOUNTED_REQUEST_ERROR,
                    handler,
                    f"an error of the request in line {request.lineno} leaves no trace in what is "
                    "judged",
                    remedy="Collect the errors here, and fail at the end if there are any.",
                    related=(request,),
                )


_PROBES = re.compile(
    r"(?i)health|ready|readiness|alive|live\b|wait|ping|version|status|up\b|probe|metric|poll|notify|slack|exists|running|reach|upload|publish|report|download"
)


def _is_probe(program: PythonProgram, node: ast.stmt, request: ast.Call) -> bool:
    """Whether it asks if a server is there, or tells somebody: then no answer is an answer."""
    function = program.scope(node)
    name = function.name if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else ""
    return bool(_PROBES.search(name) or _PROBES.search(" ".join(_texts(request))))


def _texts(call: ast.Call) -> list[str]:
    return [
        each.value
        for each in ast.walk(call)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]


def _answers_nothing(node: ast.Try, handler: ast.ExceptHandler, program: PythonProgram) -> bool:
    """Whether a prompt that failed has an answer of the program's own, as `return ""` in the handler."""
    if not any(
        isinstance(each, ast.Return) and each.value is not None for each in inside(node.body)
    ):
        return False
    *before, last = handler.body
    if not isinstance(last, ast.Return) or not _is_constant(last.value):
        return False
    return all(says_nothing(program, statement) for statement in before)


def _is_constant(value: ast.expr | None) -> bool:
    """An answer that no server gave: nothing, a text, an empty list."""
    if isinstance(value, ast.Constant):
        return value.value is None or isinstance(value.value, str | bytes)
    return value is None or ast.unparse(value) in {"{}", "[]", "dict()", "list()"}


def _is_request(program: PythonProgram, call: ast.Call) -> bool:
    name = program.dotted(call.func)
    if name.startswith(_LIBRARIES) or name.endswith(_OPENAI):
        return True
    owner, _, verb = name.rpartition(".")
    return verb in _VERBS and owner.lower().endswith(_CLIENTS)


def _keeps_answers(body: list[ast.stmt]) -> bool:
    for node in inside(body):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in _KEEPS:
                return True
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            return True
    return False


_REQUEST_ERRORS = (
    "requests.",
    "httpx.",
    "aiohttp.",
    "urllib.error.",
    "urllib3.",
    "http.client.",
    "openai.",
)
_SYSTEM_ERRORS = {
    "OSError",
    "IOError",
    "ConnectionError",
    "TimeoutError",
    "socket.timeout",
    "URLError",
    "HTTPError",
}


def _catches_requests(program: PythonProgram, handler: ast.ExceptHandler) -> bool:
    return is_broad(program, handler) or any(
        name.startswith(_REQUEST_ERRORS) or name in _SYSTEM_ERRORS
        for name in caught(program, handler)
    )


CHECKED: Final = (
    (EXIT_ZERO, exit_zero),
    (UNCOUNTED_REQUEST_ERROR, uncounted_request_error),
    (UNCHECKED_SUBPROCESS, unchecked_subprocess),
)
RULES: Final = tuple(rule for rule, _ in CHECKED)
