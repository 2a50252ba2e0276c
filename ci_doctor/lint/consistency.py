# SPDX-License-Identifier: Apache-2.0
"""Pure. Values of an option that its parser refuses; and all rules over several files, by file and line."""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct, structs

from ci_doctor.lint import variable_rules
from ci_doctor.lint.lint_rule import Example, LintRule, Place, Violation
from ci_doctor.lint.python_program import PythonProgram
from ci_doctor.lint.repository_files import RepositoryFiles, is_test, line_place
from ci_doctor.lint.source_files import started_programs
from ci_doctor.model.finding import Rule, Severity
from ci_doctor.model.words import nearest

# Values of an option that its argparse parser refuses, in the program and in scripts.


class OptionChoices(Struct, frozen=True, kw_only=True):
    """An option, the values that it accepts, and the names of the results of `parse_args`."""

    option: str
    accepted: frozenset[str]
    namespaces: frozenset[str]
    place: Place


def option_choices(program: PythonProgram) -> dict[str, OptionChoices]:
    """By attribute of the parsed arguments. An option whose list is computed is left out."""
    calls: dict[str, list[ast.Call]] = defaultdict(list)
    for call in program.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
            option = _option(call)
            if option is not None:
                calls[_attribute(call, option)].append(call)
    namespaces = _namespaces(program)
    # Attributes that the program itself sets: they may hold what no parser accepts.
    assigned = {
        node.attr
        for node in program.nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    known: dict[str, OptionChoices] = {}
    for attribute, added in calls.items():
        accepted = _accepted(added)
        option = _option(added[0])
        if accepted is None or option is None or attribute in assigned:
            continue
        known[attribute] = OptionChoices(
            option=option,
            accepted=accepted,
            namespaces=namespaces,
            place=program.place(added[0]),
        )
    return known


def _accepted(calls: list[ast.Call]) -> frozenset[str] | None:
    """What all parsers of the program accept together; None if one accepts anything."""
    accepted: set[str] = set()
    for call in calls:
        keywords = {each.arg: each.value for each in call.keywords}
        listed = _listed(keywords)
        if listed is None:
            return None
        accepted |= listed
        for word in ("default", "const"):
            value = keywords.get(word)
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                accepted.add(value.value)
    return frozenset(accepted)


def _listed(keywords: dict[str | None, ast.expr]) -> set[str] | None:
    """The constants of `choices`; None if one is computed, or a `type` changes what is compared."""
    listed = keywords.get("choices")
    kind = keywords.get("type")
    is_text = kind is None or (isinstance(kind, ast.Name) and kind.id == "str")
    if not is_text or not isinstance(listed, ast.List | ast.Tuple | ast.Set):
        return None
    values = {each.value for each in listed.elts if isinstance(each, ast.Constant)}
    texts = {value for value in values if isinstance(value, str)}
    return texts if len(texts) == len(listed.elts) else None


def _option(call: ast.Call) -> str | None:
    """The long option; None for a positional argument."""
    words = [
        each.value
        for each in call.args
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    return next((word for word in words if word.startswith("--")), None)


def _attribute(call: ast.Call, option: str) -> str:
    for keyword in call.keywords:
        if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    return option.lstrip("-").replace("-", "_")


def _namespaces(program: PythonProgram) -> frozenset[str]:
    """The names that the program gives to the results of `parse_args`."""
    names: set[str] = set()
    for node in program.nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        called = node.value.func
        if not isinstance(called, ast.Attribute):
            continue
        target = node.targets[0]
        if called.attr == "parse_args" and isinstance(target, ast.Name):
            names.add(target.id)
        elif called.attr == "parse_known_args" and isinstance(target, ast.Tuple):
            first = target.elts[0]
            names |= {first.id} if isinstance(first, ast.Name) else set()
    return frozenset(names)


_CHOICES = re.compile(r"choices\s*=")
_PROGRAM = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--backend", choices=["vllm", "sglang"])
args = parser.parse_args()
"""

UNACCEPTED_ARGUMENT = LintRule(
    rule=Rule(
        id="config/unaccepted-argument",
        severity=Severity.ERROR,
        meaning=(
            "A parser lists the values that an option accepts, and code compares the option with "
            "another one, or a script passes another one. The branch is never taken; the command "
            "ends with status 2."
        ),
        remedy="Add the value to `choices`, or remove what is left of it.",
    ),
    bad=(
        (
            Example(
                file="benchmarks/serve.py",
                text=_PROGRAM + 'if args.backend == "trtllm":\n    warm_up()\n',
            ),
        ),
        (
            Example(file="benchmarks/serve.py", text=_PROGRAM),
            Example(
                file=".buildkite/run.sh",
                text="python3 benchmarks/serve.py \\\n  --backend trtllm\n",
            ),
        ),
    ),
    good=(
        (
            Example(
                file="benchmarks/serve.py",
                text=_PROGRAM + 'if args.backend == "vllm":\n    warm_up()\n',
            ),
            Example(
                file=".buildkite/run.sh",
                text='python3 benchmarks/serve.py --backend "$1"\npython3 other.py --backend x\n',
            ),
        ),
    ),
)


def unaccepted_argument(repository: RepositoryFiles) -> Iterator[Violation]:
    """Comparisons in the program itself, and commands of scripts that start it."""
    by_name: dict[str, list[tuple[str, dict[str, OptionChoices]]]] = defaultdict(list)
    for program in repository.python_with("add_argument", _CHOICES):
        choices = option_choices(program)
        if not choices:
            continue
        by_name[PurePosixPath(program.file).name].append((program.file, choices))
        if not is_test(program.file):
            yield from _compared(repository, program, choices)
    for file in repository.settings if by_name else ():
        text = repository.files[file]
        for started in started_programs(text):
            # Those of the one program that it can be: of two programs of one name,
            # none is meant for sure.
            same = [
                each for name, each in by_name.get(started.file.name, ()) if started.may_be(name)
            ]
            options = same[0] if len(same) == 1 else {}
            for known in options.values():
                option = re.escape(known.option)
                passed = re.compile(rf"(?<!\S){option}[= ]\s*(?:\\\r?\n\s*)?([\w.-]+)(?=\s|\\|$)")
                for match in passed.finditer(started.arguments):
                    place = line_place(file, text, started.offset + match.start())
                    yield from _judged(repository, known, match[1], place, "is given")


def _compared(
    repository: RepositoryFiles, program: PythonProgram, choices: dict[str, OptionChoices]
) -> Iterator[Violation]:
    for node in program.nodes:
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
            continue
        left, right = node.left, node.comparators[0]
        if not isinstance(left, ast.Attribute) or not isinstance(left.value, ast.Name):
            continue
        known = choices.get(left.attr)
        if known is None or left.value.id not in known.namespaces:
            continue
        if isinstance(right, ast.Constant) and isinstance(right.value, str):
            place = program.place(node)
            # Such a branch is dead, which breaks nothing by itself.
            for each in _judged(repository, known, right.value, place, "is compared with"):
                yield structs.replace(each, severity=Severity.WARNING)


def _judged(
    repository: RepositoryFiles, known: OptionChoices, value: str, place: Place, verb: str
) -> Iterator[Violation]:
    if value in known.accepted:
        return
    near = nearest(value, known.accepted)
    listed = ", ".join(sorted(known.accepted))
    add = f"Add `{value}` to {known.place.file}:{known.place.line}, or remove it here"
    yield repository.violation(
        UNACCEPTED_ARGUMENT,
        place,
        f"{known.option} {verb} `{value}`, and only {listed} are accepted",
        remedy=f"Did you mean `{near}`?" if near is not None else add,
        related=(known.place,),
    )


# The files of a repository, and where they contradict each other.

_CHECKED: Final[tuple[tuple[LintRule, Callable[[RepositoryFiles], Iterator[Violation]]], ...]] = (
    *variable_rules.RULES,
    (UNACCEPTED_ARGUMENT, unaccepted_argument),
)
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
