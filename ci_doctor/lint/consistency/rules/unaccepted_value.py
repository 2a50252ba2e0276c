# SPDX-License-Identifier: Apache-2.0
"""Pure. Code and scripts that use a value of a variable which its own list of choices lacks."""

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from ci_doctor.lint.consistency.python_environment import VariableValue, values
from ci_doctor.lint.consistency.repository import RepositoryFiles, is_test
from ci_doctor.lint.consistency.set_variables import set_variables
from ci_doctor.lint.lint_rule import Example, LintRule
from ci_doctor.lint.python.program import PythonProgram
from ci_doctor.lint.violation import Place, Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule
from ci_doctor.model.suggestion import nearest

_CHOOSING = re.compile(r"choice\w{0,100}\(\s*[\"']")
_NAME = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+")

_ENVS = """\
environment_variables = {
    "ENGINE_WORKER_METHOD": env_with_choices(
        "ENGINE_WORKER_METHOD", "fork", ["spawn", "fork"]
    ),
}
"""
_SERVER = """\
from engine import envs

def serve():
    if envs.ENGINE_WORKER_METHOD == "forkserver":
        prepare()
"""

RULE = LintRule(
    rule=Rule(
        id="config/unaccepted-value",
        severity=Severity.WARNING,
        meaning=(
            "A variable has a list of values that are accepted, and code compares it with a value "
            "that is not in the list, or a script sets it to one. The branch is never taken, or "
            "the program refuses to start. Often the value was removed in one place (vLLM #40438)."
        ),
        remedy="Add the value to the list, or remove what is left of it.",
    ),
    bad=(
        (
            Example(file="engine/envs.py", text=_ENVS),
            Example(file="engine/server.py", text=_SERVER),
        ),
        (
            Example(file="engine/envs.py", text=_ENVS),
            Example(file=".buildkite/run.sh", text="export ENGINE_WORKER_METHOD=forkserver\n"),
        ),
    ),
    good=(
        (
            Example(file="engine/envs.py", text=_ENVS.replace('"fork"]', '"fork", "forkserver"]')),
            Example(file="engine/server.py", text=_SERVER),
            Example(file=".buildkite/run.sh", text="export ENGINE_WORKER_METHOD=forkserver\n"),
        ),
        (
            Example(file="engine/envs.py", text=_ENVS),
            Example(file=".buildkite/run.sh", text='export ENGINE_WORKER_METHOD="$1"\n'),
        ),
    ),
)


class _Choices(Struct, frozen=True, kw_only=True):
    """The values that a variable accepts, and the place that says so."""

    accepted: frozenset[str]
    folded: bool
    place: Place

    def accept(self, value: str, *, folded: bool) -> bool:
        if folded or self.folded:
            return value.lower() in {each.lower() for each in self.accepted}
        return value in self.accepted


def check(repository: RepositoryFiles) -> Iterator[Violation]:
    """Values that the list of a variable's choices lacks."""
    choices = _choices(repository)
    if not choices:
        return
    for used in _used(repository, choices):
        known = choices[used.name]
        # An empty value is often the same as none.
        if not used.value or known.accept(used.value, folded=used.folded):
            continue
        yield repository.violation(
            RULE,
            used.place,
            _summary(used, known),
            remedy=_remedy(used, known),
            related=(known.place,),
        )


def _summary(used: VariableValue, known: _Choices) -> str:
    verb = "is set to" if used.sets else "is compared with"
    listed = ", ".join(sorted(known.accepted))
    return f"{used.name} {verb} `{used.value}`, and only {listed} are accepted"


def _remedy(used: VariableValue, known: _Choices) -> str:
    near = nearest(used.value, known.accepted)
    if near is not None:
        return f"Did you mean `{near}`?"
    return f"Add `{used.value}` to {known.place.file}:{known.place.line}, or remove it here"


def _used(repository: RepositoryFiles, choices: dict[str, _Choices]) -> Iterator[VariableValue]:
    for file in repository.python:
        text = repository.files[file]
        if not any(name in text for name in choices):
            continue
        program = repository.program(file)
        for used in values(program) if program is not None else ():
            tried = used.sets and is_test(file)
            if used.name in choices and not tried:
                yield used
    for each in set_variables(repository):
        if each.name in choices:
            yield each


def _choices(repository: RepositoryFiles) -> dict[str, _Choices]:
    """By variable; one that several places list differently accepts all of them."""
    choices: dict[str, _Choices] = {}
    for program in repository.python_with("choice", _CHOOSING):
        if is_test(program.file):
            continue
        for call in program.calls:
            listed = _listed(program, call)
            if listed is None:
                continue
            name, new = listed
            old = choices.get(name)
            if old is not None:
                accepted = old.accepted | new.accepted
                folded = old.folded or new.folded
                new = _Choices(accepted=accepted, folded=folded, place=old.place)
            choices[name] = new
    return choices


def _listed(program: PythonProgram, call: ast.Call) -> tuple[str, _Choices] | None:
    """A call such as `env_with_choices("NAME", "a", ["a", "b"])`."""
    function = program.dotted(call.func).rpartition(".")[2].lower()
    if not call.args or "choice" not in function:
        return None
    name = call.args[0]
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return None
    keywords = {each.arg: each.value for each in call.keywords}
    listed = keywords.get("choices") or (call.args[2] if len(call.args) > 2 else None)
    accepted = _constants(listed)
    if accepted is None or not _NAME.fullmatch(name.value):
        return None
    default = call.args[1] if len(call.args) > 1 else keywords.get("default")
    if isinstance(default, ast.Constant) and isinstance(default.value, str):
        accepted |= {default.value}
    sensitive = keywords.get("case_sensitive")
    exact = isinstance(sensitive, ast.Constant) and sensitive.value is True
    known = _Choices(accepted=accepted, folded=not exact, place=program.place(call))
    return name.value, known


def _constants(node: ast.expr | None) -> frozenset[str] | None:
    """The strings of a list; None if it holds anything else."""
    if not isinstance(node, ast.List | ast.Tuple | ast.Set):
        return None
    texts = [each.value for each in node.elts if isinstance(each, ast.Constant)]
    strings = [text for text in texts if isinstance(text, str)]
    return frozenset(strings) if len(strings) == len(node.elts) and strings else None
