# SPDX-License-Identifier: Apache-2.0
"""Pure. Requests of a client whose errors leave no trace in what is compared later."""

import ast
from collections.abc import Iterator

from ci_doctor.lint.lint_rule import Example, LintRule
from ci_doctor.lint.python.handlers import is_broad, is_silent, is_try_again, says_nothing
from ci_doctor.lint.python.program import PythonProgram, inside
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

_LIBRARIES = ("requests.", "httpx.", "aiohttp.", "urllib.request.urlopen", "urllib3.")
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

RULE = LintRule(
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


def check(program: PythonProgram) -> Iterator[Violation]:
    """Handlers that drop one of many requests without a trace."""
    for node in program.nodes:
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
            if dropped or _answers_nothing(program, node, request, handler):
                yield program.violation(
                    RULE,
                    handler,
                    f"an error of the request in line {request.lineno} leaves no trace in what is "
                    "judged",
                    remedy="Collect the errors here, and fail at the end if there are any",
                    related=(request,),
                )


def _answers_nothing(
    program: PythonProgram, node: ast.Try, request: ast.Call, handler: ast.ExceptHandler
) -> bool:
    """Whether a prompt that failed has an empty answer, as `return ""` in the handler."""
    verb = program.dotted(request.func).rpartition(".")[2]
    if verb not in {"post", "create", "stream"} or not _returns(node.body):
        return False
    *before, last = handler.body
    if not isinstance(last, ast.Return) or not _is_empty(last.value):
        return False
    return all(says_nothing(program, statement) for statement in before)


def _returns(body: list[ast.stmt]) -> bool:
    return any(isinstance(each, ast.Return) and each.value is not None for each in inside(body))


def _is_empty(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Constant):
        return value.value in {None, ""}
    return value is None or ast.unparse(value) in {"{}", "[]"}


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


def _catches_requests(program: PythonProgram, handler: ast.ExceptHandler) -> bool:
    kind = program.dotted(handler.type) if handler.type is not None else ""
    return is_broad(program, handler) or kind.startswith(("requests.", "httpx.", "aiohttp."))
