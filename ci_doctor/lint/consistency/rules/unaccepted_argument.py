# SPDX-License-Identifier: Apache-2.0
"""Pure. Values of an option that its argparse parser refuses, in the program and in scripts."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import PurePosixPath

from msgspec import structs

from ci_doctor.lint.consistency.choices import OptionChoices, option_choices
from ci_doctor.lint.consistency.repository import RepositoryFiles, is_test, line_place
from ci_doctor.lint.lint_rule import Example, LintRule
from ci_doctor.lint.python.program import PythonProgram
from ci_doctor.lint.started_programs import StartedProgram, started_programs
from ci_doctor.lint.violation import Place, Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule
from ci_doctor.model.suggestion import nearest

_CHOICES = re.compile(r"choices\s*=")
_PROGRAM = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--backend", choices=["vllm", "sglang"])
args = parser.parse_args()
"""

RULE = LintRule(
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


def check(repository: RepositoryFiles) -> Iterator[Violation]:
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
        yield from _passed(repository, file, by_name)


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


def _passed(
    repository: RepositoryFiles,
    file: str,
    by_name: dict[str, list[tuple[str, dict[str, OptionChoices]]]],
) -> Iterator[Violation]:
    text = repository.files[file]
    for started in started_programs(text):
        options = _options_of(started, by_name)
        for known in options.values():
            option = re.escape(known.option)
            passed = re.compile(rf"(?<!\S){option}[= ]\s*(?:\\\r?\n\s*)?([\w.-]+)(?=\s|\\|$)")
            for match in passed.finditer(started.arguments):
                place = line_place(file, text, started.offset + match.start())
                yield from _judged(repository, known, match[1], place, "is given")


def _options_of(
    started: StartedProgram, by_name: dict[str, list[tuple[str, dict[str, OptionChoices]]]]
) -> dict[str, OptionChoices]:
    """Those of the one program that it can be: of two programs of one name, none is meant for sure."""
    same = [each for name, each in by_name.get(started.file.name, ()) if started.may_be(name)]
    return same[0] if len(same) == 1 else {}


def _judged(
    repository: RepositoryFiles, known: OptionChoices, value: str, place: Place, verb: str
) -> Iterator[Violation]:
    if value in known.accepted:
        return
    near = nearest(value, known.accepted)
    listed = ", ".join(sorted(known.accepted))
    add = f"Add `{value}` to {known.place.file}:{known.place.line}, or remove it here"
    yield repository.violation(
        RULE,
        place,
        f"{known.option} {verb} `{value}`, and only {listed} are accepted",
        remedy=f"Did you mean `{near}`?" if near is not None else add,
        related=(known.place,),
    )
