# SPDX-License-Identifier: Apache-2.0
"""Pure. A variable that two places of one package read with different defaults."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import PurePosixPath

from ci_doctor.lint.consistency.python_environment import VariableDefault, defaults
from ci_doctor.lint.consistency.repository import RepositoryFiles, is_test, own_prefixes
from ci_doctor.lint.lint_rule import Example, LintRule
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

_READ = re.compile(r"(?:environ\.get|getenv)\(\s*[\"']([A-Z][A-Z0-9_]+)[\"']\s*,")
_OFF = {"", "0", "false", "no", "off", "none"}
_ON = {"1", "true", "yes", "on"}

_ONE = 'import os\nTIMEOUT = int(os.environ.get("ENGINE_TIMEOUT", "5"))\n'
_TWO = 'import os\ndef wait():\n    return float(os.getenv("ENGINE_TIMEOUT", "30"))\n'

RULE = LintRule(
    rule=Rule(
        id="config/different-default",
        severity=Severity.WARNING,
        meaning=(
            "Two places of one package read the same variable of its own with different defaults. "
            "If it is not set, its parts work with different values."
        ),
        remedy="State the default in one place, and read the variable there.",
    ),
    bad=(
        (Example(file="engine/__init__.py", text=_ONE), Example(file="engine/wait.py", text=_TWO)),
    ),
    good=(
        (
            Example(file="engine/__init__.py", text=_ONE),
            Example(file="engine/wait.py", text=_TWO.replace('"30"', '"5"')),
        ),
        (
            Example(file="engine/__init__.py", text=_ONE),
            Example(file="examples/wait.py", text=_TWO),
        ),
    ),
)


def check(repository: RepositoryFiles) -> Iterator[Violation]:
    """Of each variable of the repository's own, the places that differ from the most usual one."""
    for name, places in _by_variable(repository).items():
        meanings: dict[str, list[VariableDefault]] = defaultdict(list)
        for place in places:
            meanings[_meaning(place.value)].append(place)
        if len(meanings) < 2:
            continue
        usual, *others = sorted(meanings.values(), key=len, reverse=True)
        first = usual[0]
        for each in (place for places in others for place in places):
            yield repository.violation(
                RULE,
                each.place,
                f"{name} is `{each.value}` here if it is not set, and `{first.value}` in "
                f"{first.place.file}:{first.place.line}",
                remedy="State the default in one place",
                related=(first.place,),
            )


def _by_variable(repository: RepositoryFiles) -> dict[str, list[VariableDefault]]:
    """The reads of each variable in the package of its name, if a text search meets two of them."""
    files = _files_by_variable(repository)
    places: dict[str, list[VariableDefault]] = defaultdict(list)
    for file in sorted({file for reading in files.values() for file in reading}):
        program = repository.program(file)
        if program is None:
            continue
        for each in defaults(program):
            if file in files.get(each.name, ()):
                places[each.name].append(each)
    return places


def _files_by_variable(repository: RepositoryFiles) -> dict[str, set[str]]:
    """The files of a package that read a variable of its own, for each that is read twice."""
    files: dict[str, set[str]] = defaultdict(set)
    counts: Counter[str] = Counter()
    for file in repository.python:
        package = _package(file, repository.packages)
        if package is None or is_test(file):
            continue
        own = own_prefixes((package,))
        for name in _READ.findall(repository.files[file]):
            if name.startswith(own):
                files[name].add(file)
                counts[name] += 1
    return {name: reading for name, reading in files.items() if counts[name] > 1}


def _package(file: str, packages: frozenset[str]) -> str | None:
    return next((part for part in PurePosixPath(file).parts[:2] if part in packages), None)


def _meaning(value: str) -> str:
    """Values that programs usually take for the same thing are the same."""
    folded = value.strip().lower()
    if folded in _OFF:
        return "off"
    if folded in _ON:
        return "on"
    try:
        return str(float(folded))
    except ValueError:
        return folded
