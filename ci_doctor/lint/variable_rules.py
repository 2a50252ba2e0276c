# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about environment variables that one file sets and another one reads."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Final

from msgspec import Struct

from ci_doctor.lint.lint_rule import Example, LintRule, Place, Violation
from ci_doctor.lint.python_program import PythonProgram
from ci_doctor.lint.repository_files import (
    RepositoryFiles,
    VariableValue,
    is_prose,
    is_setting,
    is_test,
    own_prefixes,
    set_variables,
    values,
)
from ci_doctor.model.finding import Rule, Severity
from ci_doctor.model.words import nearest

# Code and scripts that use a value of a variable which its own list of choices lacks.

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

UNACCEPTED_VALUE = LintRule(
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


def unaccepted_value(repository: RepositoryFiles) -> Iterator[Violation]:
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
            UNACCEPTED_VALUE,
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


# Variables of the repository's own that a script sets and no code reads.

_WORD = re.compile(r"[A-Z][A-Z0-9_]*_[A-Z0-9_]+")
_EXPANDED = re.compile(r"\$[{(]?\{?\s*[!#]?(?:env\.)?([A-Z][A-Z0-9_]*)")
_PYTHON_SETS = re.compile(
    r"""(?:environ\[|setenv\(|setdefault\()\s*["']([A-Z][A-Z0-9_]*)["']\s*(?:\]\s*=(?!=)|,)"""
)
_MOST_MISTYPED = 2  # letters
_FEWEST_READ = 3  # variables of one prefix that are read: else the prefix is not the repository's

_PACKAGE = """\
import os
SIZE = os.environ.get("ENGINE_CHUNK_SIZE", "256")
PORT = os.environ.get("ENGINE_PORT", "8000")
LEVEL = os.environ.get("ENGINE_LOG_LEVEL", "INFO")
"""

UNREAD_VARIABLE = LintRule(
    rule=Rule(
        id="config/unread-variable",
        severity=Severity.WARNING,
        meaning=(
            "A script sets a variable whose name begins like the repository's own, and no file of "
            "the repository reads it. It is mistyped, or the code that read it is gone, and the "
            "job tests something else than it says."
        ),
        remedy="Correct the name, or remove the line.",
    ),
    bad=(
        (
            Example(file="engine/__init__.py", text=_PACKAGE),
            Example(file=".buildkite/run.sh", text="export ENGINE_CHUNKSIZE=16\n"),
        ),
        (
            Example(file="engine/__init__.py", text=_PACKAGE),
            Example(file=".buildkite/pipeline.yml", text="env:\n  ENGINE_USE_V0: 1\n"),
        ),
    ),
    good=(
        (
            Example(file="engine/__init__.py", text=_PACKAGE),
            Example(file=".buildkite/run.sh", text="export ENGINE_CHUNK_SIZE=16\n"),
        ),
        (
            Example(file="engine/__init__.py", text=_PACKAGE),
            Example(
                file=".buildkite/run.sh", text='ENGINE_IMAGE=a:1\ndocker run "$ENGINE_IMAGE"\n'
            ),
        ),
        (
            Example(file="engine/__init__.py", text=_PACKAGE),
            Example(file="CMakeLists.txt", text='option(ENGINE_USE_STUBS "" ON)\n'),
            Example(file="ci/build.sh", text="export ENGINE_USE_STUBS=ON\n"),
        ),
        (
            Example(file="engine/__init__.py", text=_PACKAGE),
            Example(file="requirements.txt", text="engine-eval>=0.5\n"),
            Example(file=".buildkite/run.sh", text="export ENGINE_EVAL_QUESTIONS=10\n"),
        ),
    ),
)


def unread_variable(repository: RepositoryFiles) -> Iterator[Violation]:
    """Variables that only are set. Nothing if not all files of the repository are known."""
    if not repository.whole:
        return
    prefixes = own_prefixes(repository.packages)
    candidates: dict[str, list[Place]] = defaultdict(list)
    for each in set_variables(repository):
        if each.name.startswith(prefixes):
            candidates[each.name].append(each.place)
    if not candidates:
        return
    read = _read(repository, prefixes)
    for name, places in candidates.items():
        prefix = next(prefix for prefix in prefixes if name.startswith(prefix))
        own = {each for each in read if each.startswith(prefix)}
        # Whether code that does not spell `name` out may read it.
        if (
            name in read
            or len(own) < _FEWEST_READ
            or (_is_computed(repository, prefix) or _is_of_dependency(repository, name))
        ):
            continue
        near = _nearest_variable(name, own)
        remedy = f"Did you mean `{near}`?" if near is not None else "Remove the line"
        for place in places:
            yield repository.violation(
                UNREAD_VARIABLE,
                place,
                f"nothing in the repository reads {name}",
                remedy=remedy,
                related=(),
            )


def _nearest_variable(name: str, known: set[str]) -> str | None:
    """The variable that differs in a letter or two: many begin alike, and mean other things."""
    for other in sorted(known):
        blocks = SequenceMatcher(None, name, other, autojunk=False).get_matching_blocks()
        same = sum(block.size for block in blocks)
        if max(len(name), len(other)) - same <= _MOST_MISTYPED:
            return other
    return None


def _read(repository: RepositoryFiles, prefixes: tuple[str, ...]) -> set[str]:
    """Names that a file mentions in any way but setting them."""
    names: set[str] = set()
    for file, text in repository.files.items():
        if is_prose(file):
            continue
        if is_setting(file):
            names.update(_EXPANDED.findall(text))
            continue
        mentioned = [word for word in _WORD.findall(text) if word.startswith(prefixes)]
        only_set = _PYTHON_SETS.findall(text) if mentioned else []
        for name in only_set:
            if name in mentioned:
                mentioned.remove(name)
        names.update(mentioned)
    return names


def _is_of_dependency(repository: RepositoryFiles, name: str) -> bool:
    """Whether the repository asks for a package of another one that is called as the name begins."""
    first, second, *_ = name.lower().split("_")
    package = re.compile(rf"(?im)^[\s\"'-]*{first}[-_.]{second}\b[\w.-]*\s*(?:\[|[<>=!~@\"';]|$)")
    return any(
        package.search(text) is not None
        for file, text in repository.files.items()
        if file.endswith((".toml", ".txt", ".in"))
    )


def _is_computed(repository: RepositoryFiles, prefix: str) -> bool:
    """Whether code makes names of the prefix and another word: then any may be read."""
    computed = re.compile(rf"""["']{prefix}(?:["'{{%]|\w*\{{)""")
    return any(
        computed.search(text) is not None
        for file, text in repository.files.items()
        if not is_prose(file) and not is_setting(file)
    )


_CHECKED: Final = ((UNACCEPTED_VALUE, unaccepted_value), (UNREAD_VARIABLE, unread_variable))
RULES: Final = tuple(rule for rule, _ in _CHECKED)


def check_consistency(files: Mapping[str, str], *, whole: bool = True) -> tuple[Violation, ...]:
    """The violations, by file and line.

    files: texts by their names, relative to the repository: Python, shell, YAML, Dockerfiles, and
    the native sources that may read a variable. whole: whether these are all of them; if not, rules
    that need all say nothing. It raises for no text.
    """
    repository = RepositoryFiles(files, whole=whole)
    violations = [violation for _, check in _CHECKED for violation in check(repository)]
    violations.sort(key=lambda each: (each.place.file, each.place.line))
    return tuple(violations)
