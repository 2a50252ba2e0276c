# SPDX-License-Identifier: Apache-2.0
"""Pure. Variables of the repository's own that a script sets and no code reads."""

import re
from collections import defaultdict
from collections.abc import Iterator
from difflib import SequenceMatcher

from ci_doctor.lint.consistency.repository import (
    RepositoryFiles,
    is_prose,
    is_setting,
    own_prefixes,
)
from ci_doctor.lint.consistency.set_variables import set_variables
from ci_doctor.lint.lint_rule import Example, LintRule
from ci_doctor.lint.violation import Place, Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

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

RULE = LintRule(
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


def check(repository: RepositoryFiles) -> Iterator[Violation]:
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
        if name in read or len(own) < _FEWEST_READ or _may_be_read(repository, name, prefix):
            continue
        near = _nearest_variable(name, own)
        remedy = f"Did you mean `{near}`?" if near is not None else "Remove the line"
        for place in places:
            yield repository.violation(
                RULE,
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


def _may_be_read(repository: RepositoryFiles, name: str, prefix: str) -> bool:
    """Whether code that does not spell `name` out may read it."""
    return _is_computed(repository, prefix) or _is_of_dependency(repository, name)


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
