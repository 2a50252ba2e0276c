# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about environment variables that one file of a repository sets and another one reads."""

import ast
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from ci_doctor.lint.lint_rule import Example, LintRule, Place, Violation, excerpt_of
from ci_doctor.lint.python_program import PythonProgram, parse
from ci_doctor.model.outcome import Rule, Severity
from ci_doctor.model.words import nearest

_SHELL = {".sh", ".bash", ".zsh", ".env"}
_DATA = {".yml", ".yaml"}
_PROSE = {".md", ".rst", ".txt", ".adoc", ".ipynb"}
# Variables of CI systems are theirs, whatever a package is called.
_CI_SYSTEMS = {"BUILDKITE_", "GITHUB_", "GITLAB_", "CIRCLE_", "JENKINS_", "CI_"}
# A package lies at the top of the repository, or below one of these.
_ROOTS = {"", "src", "python", "lib"}


class RepositoryFiles:
    """Texts by their names, which are relative to the repository.

    `whole`: whether these are all files of the repository that a program may read. What nobody
    reads can be said only then.
    """

    def __init__(self, files: Mapping[str, str], *, whole: bool = True) -> None:
        self.files = files
        self.whole = whole
        self._programs: dict[str, PythonProgram | None] = {}

    @cached_property
    def python(self) -> tuple[str, ...]:
        """The Python files."""
        return tuple(file for file in self.files if file.endswith(".py"))

    @cached_property
    def settings(self) -> tuple[str, ...]:
        """Shell scripts, YAML and Dockerfiles: they set variables for others."""
        return tuple(file for file in self.files if is_setting(file))

    @cached_property
    def packages(self) -> frozenset[str]:
        """The names of the Python packages that the repository itself holds."""
        names: set[str] = set()
        for file in self.python:
            path = PurePosixPath(file)
            if path.name == "__init__.py" and str(path.parent.parent).lstrip(".") in _ROOTS:
                names.add(path.parent.name)
        return frozenset(names - {"tests", "test", "benchmarks", "examples", "docs"})

    def program(self, file: str) -> PythonProgram | None:
        """A Python file, parsed; None if Python refuses it."""
        if file not in self._programs:
            try:
                self._programs[file] = parse(file, self.files[file])
            except SyntaxError:
                self._programs[file] = None
        return self._programs[file]

    def violation(
        self, rule: LintRule, place: Place, summary: str, *, remedy: str, related: tuple[Place, ...]
    ) -> Violation:
        """A violation at a place of one of the files."""
        return Violation(
            rule=rule,
            place=place,
            summary=summary,
            # A violation of several files may have no line of its own.
            excerpt=excerpt_of(
                "".join(self.files[place.file].split("\n")[place.line - 1 : place.line])
            ),
            remedy=remedy,
            related=related,
        )


def is_setting(file: str) -> bool:
    """Whether a file sets variables for programs: a script, YAML, a Dockerfile."""
    path = PurePosixPath(file)
    return path.suffix in _SHELL | _DATA or "Dockerfile" in path.name


def is_prose(file: str) -> bool:
    """Whether a file only tells of variables."""
    path = PurePosixPath(file)
    return path.suffix in _PROSE and path.name != "CMakeLists.txt"


def is_test(file: str) -> bool:
    """Whether a file tests the repository: it may try values that are refused."""
    path = PurePosixPath(file)
    return "tests" in path.parts or "test" in path.parts or path.name.startswith("test_")


# What a Python program does with environment variables.

_GETS = {"os.environ.get", "os.getenv", "environ.get", "getenv"}
_ENVIRONS = {"os.environ", "environ"}


class VariableValue(Struct, frozen=True, kw_only=True):
    """A variable is compared with a value, or set to it."""

    name: str
    value: str
    place: Place
    sets: bool = False


def values(program: PythonProgram) -> Iterator[VariableValue]:
    """Comparisons with constants, and settings to constants."""
    for node in program.nodes:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            name, other = _variable(program, node.left), node.comparators[0]
            if name is None:
                name, other = _variable(program, other), node.left
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            name, other = _variable(program, node.targets[0]), node.value
        else:
            continue
        if name is not None:
            place, is_set = program.place(node), isinstance(node, ast.Assign)
            for value in _texts(other):
                yield VariableValue(name=name, value=value, place=place, sets=is_set)


def _variable(program: PythonProgram, node: ast.expr) -> str | None:
    """The variable whose value an expression is."""
    if isinstance(node, ast.Call) and program.dotted(node.func) in _GETS and node.args:
        return next(iter(_texts(node.args[0])), None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        is_same = node.func.attr in {"lower", "upper", "casefold", "strip"}
        return _variable(program, node.func.value) if is_same else None
    if isinstance(node, ast.Subscript) and program.dotted(node.value) in _ENVIRONS:
        return next(iter(_texts(node.slice)), None)
    # A module of settings, one attribute a variable, as vllm.envs is.
    if isinstance(node, ast.Attribute) and node.attr.isupper():
        is_settings = program.dotted(node.value).rpartition(".")[2] in {"envs", "environs"}
        return node.attr if is_settings else None
    return None


def _texts(node: ast.expr | None) -> list[str]:
    """The string, or the strings of a list."""
    elements = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    constants = [each.value for each in elements if isinstance(each, ast.Constant)]
    return [each for each in constants if isinstance(each, str)]


# The variables that shell scripts, YAML and Dockerfiles set to a constant.

_SET_NAME = r"(?<![A-Z0-9_])(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+)"
_SHELL_VALUE = re.compile(
    _SET_NAME + r"""=(?P<quote>["']?)(?P<value>[^\s"'$`;&|()<>\\]*)(?P=quote)(?=[\s;&|)]|$)"""
)
_YAML = re.compile(
    _SET_NAME
    + r"""["']?[ \t]*:[ \t]+(?P<quote>["']?)(?P<value>[^\s"'$#{}\[\]|>&*]+)(?P=quote)"""
    + r"""[ \t]*(?:\#.*)?\r?$""",
    re.MULTILINE,
)
_COMMENT = re.compile(r"\s*#")
_LINE_END = re.compile(r"\n")
# What may stand before a name that is set. After a bar it is mostly a choice in a pattern of grep.
_BEFORE_IN_SHELL = frozenset(" \t\n;&(\"'")


def set_variables(repository: RepositoryFiles) -> Iterator[VariableValue]:
    """Settings such as `export NAME=value`, `docker run -e NAME=value` and `NAME: value`."""
    for file in repository.settings:
        text = repository.files[file]
        # A line may have a megabyte, and a file a hundred thousand settings.
        starts = [0, *(end.end() for end in _LINE_END.finditer(text))]
        is_yaml = file.endswith((".yml", ".yaml"))
        for pattern in (_SHELL_VALUE, _YAML) if is_yaml else (_SHELL_VALUE,):
            for match in pattern.finditer(text):
                start = match.start("name")
                line = bisect_right(starts, start)
                first = starts[line - 1]
                if _COMMENT.match(text, first, start) or not _may_set(pattern, text, first, start):
                    continue
                yield VariableValue(
                    name=match["name"],
                    value=match["value"],
                    place=Place(file=file, line=line, end_line=line),
                    sets=True,
                )


def _may_set(pattern: re.Pattern[str], text: str, first: int, start: int) -> bool:
    """Whether what stands in a line from `first` to a name at `start` lets it be a name."""
    if pattern is _YAML:
        return not text[first:start].strip(" \t-\"'")
    return start == first or text[start - 1] in _BEFORE_IN_SHELL


# Values of a variable that its own list of choices lacks.

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


def unaccepted_value(repository: RepositoryFiles) -> Iterator[Violation]:
    """Values that the list of a variable's choices lacks. The case of letters does not matter."""
    choices = _choices(repository)
    if not choices:
        return
    used = [*set_variables(repository)]
    for file in repository.python:
        if any(name in repository.files[file] for name in choices):
            program = repository.program(file)
            tried = is_test(file)
            used += (
                [each for each in values(program) if not (each.sets and tried)] if program else []
            )
    for each in used:
        accepted, place = choices.get(each.name, (frozenset(), None))
        # An empty value is often the same as none.
        if place is None or not each.value or each.value.lower() in map(str.lower, accepted):
            continue
        verb = "is set to" if each.sets else "is compared with"
        listed = ", ".join(sorted(accepted))
        near = nearest(each.value, accepted)
        add = f"Add `{each.value}` to {place.file}:{place.line}, or remove it here"
        yield repository.violation(
            UNACCEPTED_VALUE,
            each.place,
            f"{each.name} {verb} `{each.value}`, and only {listed} are accepted",
            remedy=f"Did you mean `{near}`?" if near is not None else add,
            related=(place,),
        )


def _choices(repository: RepositoryFiles) -> dict[str, tuple[frozenset[str], Place]]:
    """By variable what it accepts, and where that stands; one that several places list accepts all of them.

    A list is an argument of a call such as `env_with_choices("NAME", "a", ["a", "b"])`.
    """
    choices: dict[str, tuple[frozenset[str], Place]] = {}
    for file in repository.python:
        text = repository.files[file]
        is_one = "choice" in text and _CHOOSING.search(text) is not None and not is_test(file)
        program = repository.program(file) if is_one else None
        if program is None:
            continue
        for call in program.calls:
            function = program.dotted(call.func).rpartition(".")[2].lower()
            if "choice" not in function or not call.args:
                continue
            arguments = dict(zip(("name", "default", "choices"), call.args, strict=False))
            arguments.update({each.arg: each.value for each in call.keywords if each.arg})
            listed = arguments.get("choices")
            accepted = _texts(listed) if isinstance(listed, ast.List | ast.Tuple | ast.Set) else []
            if not accepted or len(accepted) != len(getattr(listed, "elts", ())):
                continue
            for name in filter(_NAME.fullmatch, _texts(call.args[0])):
                known, place = choices.get(name, (frozenset[str](), program.place(call)))
                defaults = _texts(arguments.get("default"))
                choices[name] = known.union(accepted, defaults), place
    return choices


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
    # `VLLM_` for vllm. Variables of CI systems are theirs, whatever a package is called.
    own_names = {f"{name.strip('_').upper()}_" for name in repository.packages}
    prefixes = tuple(sorted(own_names - _CI_SYSTEMS))
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
