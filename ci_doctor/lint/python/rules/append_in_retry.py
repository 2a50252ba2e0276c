# SPDX-License-Identifier: Apache-2.0
"""Pure. A file that each try appends to, so that a later try reads what an earlier one wrote."""

import ast
from collections.abc import Iterator

from ci_doctor.lint.lint_rule import Example, LintRule
from ci_doctor.lint.python.program import PythonProgram
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

_TRY_WORDS = ("attempt", "retry", "retries", "tries", "trial")
# Files that the CI system reads as a stream, and logs, are meant to grow.
_STREAMS = ("GITHUB_", "BASH_ENV", "log")

_BAD = """\
for attempt in range(3):
    with open("answers.jsonl", "a") as answers:
        answers.write(ask())
    if compare("answers.jsonl"):
        break
"""

RULE = LintRule(
    rule=Rule(
        id="gate/append-in-retry",
        severity=Severity.WARNING,
        meaning=(
            "A loop of tries appends to one file. The second try's file holds the first try's "
            "lines too, so it is judged by both."
        ),
        remedy="Open the file with `w`, or give each try a file of its own.",
    ),
    bad=((Example(file=".buildkite/client.py", text=_BAD),),),
    good=(
        (Example(file=".buildkite/client.py", text=_BAD.replace('"a"', '"w"')),),
        (
            Example(
                file=".buildkite/client.py",
                text=_BAD.replace('"answers.jsonl"', 'f"answers-{attempt}.jsonl"'),
            ),
        ),
        (
            Example(
                file=".buildkite/client.py",
                text=_BAD.replace("attempt", "prompt").replace("range(3)", "prompts"),
            ),
        ),
    ),
)


def check(program: PythonProgram) -> Iterator[Violation]:
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
            RULE,
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
