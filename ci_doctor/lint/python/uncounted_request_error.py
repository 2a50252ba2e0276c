# SPDX-License-Identifier: Apache-2.0
"""Pure. Requests of a client whose errors leave no trace in what is compared later."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import Example, LintRule, Violation
from ci_doctor.lint.python.program import (
    PythonProgram,
    caught,
    inside,
    is_broad,
    is_silent,
    is_try_again,
    says_nothing,
)
from ci_doctor.model.finding import Rule, Severity

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

_BAD = """\
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
        (Example(file=".buildkite/client.py", text=_BAD),),
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
                file="ci/answers.py",
                text=(
                    "from urllib.request import urlopen\n"
                    "def answer(url):\n"
                    "    text = None\n"
                    "    try:\n"
                    "        with urlopen(url, timeout=60) as reply:\n"
                    "            text = reply.read()\n"
                    "    except Exception as error:\n"
                    "        print(error)\n"
                    "    return text\n"
                ),
            ),
        ),
        (
            Example(
                file="ci/all_answers.py",
                text=(
                    "import contextlib, requests\n"
                    "answers = []\n"
                    "for prompt in prompts:\n"
                    "    with contextlib.suppress(Exception):\n"
                    "        answers.append(requests.post(url, json=prompt, timeout=60).text)\n"
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
                text=_BAD.replace(
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
        if isinstance(node, ast.With):
            yield from _suppressed(program, node)
        if not isinstance(node, ast.Try) or is_try_again(program, node):
            continue
        request = _request(program, node.body)
        if request is None:
            continue
        kept = _keeps_answers(node.body) and _is_one_of_many(program, node)
        for handler in node.handlers:
            if not _catches_requests(program, handler):
                continue
            dropped = kept and is_silent(program, handler)
            if dropped or (
                not _is_probe(program, node, request)
                and (
                    _answers_nothing(node, handler, program)
                    or _leaves_nothing(program, node, handler)
                )
            ):
                yield program.violation(
                    UNCOUNTED_REQUEST_ERROR,
                    handler,
                    f"an error of the request in line {request.lineno} leaves no trace in what is "
                    "judged",
                    remedy="Collect the errors here, and fail at the end if there are any.",
                    related=(request,),
                )


def _suppressed(program: PythonProgram, node: ast.With) -> Iterator[Violation]:
    """`with contextlib.suppress(…)` around a request whose answer is kept."""
    names = {
        program.dotted(each.context_expr.func)
        for each in node.items
        if isinstance(each.context_expr, ast.Call)
    }
    request = _request(program, node.body)
    if not {"contextlib.suppress", "suppress"} & names or request is None:
        return
    kept = _keeps_answers(node.body) or bool(_assigned(node.body))
    if kept and not _is_probe(program, node, request):
        yield program.violation(
            UNCOUNTED_REQUEST_ERROR,
            node,
            f"an error of the request in line {request.lineno} leaves no trace in what is judged",
            remedy="Collect the errors, and fail at the end if there are any.",
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
    if not _returns(node.body):
        return False
    *before, last = handler.body
    if not isinstance(last, ast.Return) or not _is_constant(last.value):
        return False
    return all(says_nothing(program, statement) for statement in before)


def _leaves_nothing(program: PythonProgram, node: ast.Try, handler: ast.ExceptHandler) -> bool:
    """Whether the variable that the answer goes to keeps a constant, and is returned behind the `try`."""
    function = program.scope(node)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    names = _assigned(node.body)
    returned = {
        each.id
        for one in inside(function.body)
        if isinstance(one, ast.Return) and one.value is not None and one.lineno > node.lineno
        for each in ast.walk(one.value)
        if isinstance(each, ast.Name)
    }
    if not names & returned:
        return False
    return all(
        says_nothing(program, each) or (isinstance(each, ast.Assign) and _is_constant(each.value))
        for each in handler.body
    )


def _assigned(body: list[ast.stmt]) -> set[str]:
    """The variables that get a value, or a part of one."""
    targets = [
        target for each in inside(body) if isinstance(each, ast.Assign) for target in each.targets
    ]
    names = [each.value if isinstance(each, ast.Subscript) else each for each in targets]
    return {each.id for each in names if isinstance(each, ast.Name)}


def _returns(body: list[ast.stmt]) -> bool:
    return any(isinstance(each, ast.Return) and each.value is not None for each in inside(body))


def _is_constant(value: ast.expr | None) -> bool:
    """An answer that no server gave: nothing, a text, an empty list."""
    if isinstance(value, ast.Constant):
        return value.value is None or isinstance(value.value, str | bytes)
    return value is None or ast.unparse(value) in {"{}", "[]", "dict()", "list()"}


def _request(program: PythonProgram, body: list[ast.stmt]) -> ast.Call | None:
    for node in inside(body):
        if isinstance(node, ast.Call) and _is_request(program, node):
            return node
    return None


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


def _is_one_of_many(program: PythonProgram, node: ast.Try) -> bool:
    loops = ast.For | ast.AsyncFor
    return any(isinstance(above, loops | ast.AsyncFunctionDef) for above in program.parents(node))


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


RULES: Final = ((UNCOUNTED_REQUEST_ERROR, uncounted_request_error),)
